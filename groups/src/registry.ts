/** Tiers, groups and chats: made, looked at, removed. */
import { rfc3339 } from '@squash/base/clock';
import { AppError } from '@squash/contract/errors';
import { groupLimits } from '@squash/contract/group-limits';
import type { Chat, ChatChange, ChatCreate, Group, GroupChange, GroupCreate } from '@squash/contract/groups';
import type { Tier, TierBody } from '@squash/contract/tiers';
import { forbidden } from './network.ts';
import { checkMounts } from './profiles.ts';
import type { ChatRow, GroupRow, GroupRows } from './rows.ts';
import { builtInTiers } from './tiers.ts';

export interface Making {
  readonly nowMs: number;
  /** The group whose agent makes it; null: a client of the API. */
  readonly by: string | null;
}

export class Registry {
  readonly #rows: GroupRows;

  constructor(rows: GroupRows) {
    this.#rows = rows;
  }

  tiers(): readonly Tier[] {
    return [
      ...builtInTiers,
      ...this.#rows.tiers().map(({ name, body }) => ({ ...body, name, built_in: false })),
    ];
  }

  /** @throws tier_not_found */
  tier(name: string): Tier {
    const found = this.tiers().find((tier) => tier.name === name);
    if (found === undefined) throw new AppError('tier_not_found', `Cannot find tier "${name}"`);
    return found;
  }

  setTier(name: string, body: TierBody): Tier {
    checkOwn(name);
    const known = this.tiers();
    for (const one of body.create_tiers) {
      if (one !== name) this.tier(one);
    }
    if (known.length >= groupLimits.tiersMax && !known.some((tier) => tier.name === name))
      throw full('tiers', known.length);
    this.#rows.putTier({ name, body });
    return { ...body, name, built_in: false };
  }

  removeTier(name: string): void {
    checkOwn(name);
    this.tier(name);
    const user =
      this.#rows.groups().find(({ body }) => body.tier === name)?.body.name ??
      this.#rows.tiers().find((tier) => tier.name !== name && tier.body.create_tiers.includes(name))?.name;
    if (user !== undefined)
      throw new AppError('tier_in_use', `Cannot remove tier "${name}": "${user}" has it`);
    this.#rows.deleteTier(name);
  }

  groups(): readonly Group[] {
    return this.#rows.groups().map((row) => this.#info(row));
  }

  /** @throws group_not_found */
  group(name: string): GroupRow {
    const row = this.#rows.group(name);
    if (row === undefined) throw new AppError('group_not_found', `Cannot find group "${name}"`);
    return row;
  }

  describe(name: string): Group {
    return this.#info(this.group(name));
  }

  tierOf(group: string): Tier {
    return this.tier(this.group(group).body.tier);
  }

  /** @throws tier_not_found, tier_forbids */
  checkTier(body: GroupCreate, what: 'make' | 'change' = 'make'): void {
    const rule = forbidden(this.tier(body.tier), body);
    if (rule !== undefined)
      throw new AppError('tier_forbids', `Cannot ${what} group "${body.name}": ${rule}`);
  }

  createGroup(body: GroupCreate, { nowMs, by }: Making): Group {
    const { name } = body;
    this.checkTier(body);
    checkMounts(body);
    const groups = this.#rows.groups();
    // Names that differ in their case only would be one to a person, and on some disks.
    const same = groups.find((row) => row.body.name.toLowerCase() === name.toLowerCase());
    if (same !== undefined)
      throw new AppError('group_exists', `Cannot make group "${name}": there is "${same.body.name}"`);
    if (groups.length >= groupLimits.groupsMax) throw full('groups', groups.length);
    this.#rows.insertGroup({ body, createdMs: nowMs, createdBy: by });
    return this.describe(name);
  }

  /** @throws group_not_found, tier_not_found, tier_forbids, invalid_request */
  updateGroup(name: string, { memory_mb, ...change }: GroupChange): Group {
    const { memory_mb: known, ...before } = this.group(name).body;
    const memory = memory_mb === undefined ? known : (memory_mb ?? undefined);
    const body = {
      ...before,
      ...(change as Partial<GroupCreate>),
      ...(memory !== undefined && { memory_mb: memory }),
    };
    this.checkTier(body, 'change');
    checkMounts(body);
    this.#rows.putGroup(body);
    return this.describe(name);
  }

  chats(): readonly Chat[] {
    return this.#rows.chats().map((row) => this.#chatInfo(row));
  }

  /** @throws chat_not_found */
  chat(name: string): ChatRow {
    const row = this.#rows.chat(name);
    if (row === undefined) throw new AppError('chat_not_found', `Cannot find chat "${name}"`);
    return row;
  }

  createChat(body: ChatCreate, { nowMs }: Pick<Making, 'nowMs'>): Chat {
    this.group(body.group);
    if (this.#rows.chat(body.name) !== undefined)
      throw new AppError('chat_exists', `Cannot make chat "${body.name}": there is one`);
    const { length } = this.#rows.chats();
    if (length >= groupLimits.chatsMax) throw full('chats', length);
    this.#rows.insertChat({ body, createdMs: nowMs });
    return this.#chatInfo(this.chat(body.name));
  }

  /** @throws chat_not_found */
  updateChat(name: string, change: ChatChange): Chat {
    this.#rows.putChat({ ...this.chat(name).body, ...(change as Partial<ChatCreate>) });
    return this.#chatInfo(this.chat(name));
  }

  /** What a chat has that no run uses now. @throws chat_not_found, group_in_use */
  idleChat(name: string): ChatRow {
    const row = this.chat(name);
    this.checkIdle(row.body.group, (run) => run.chat === name);
    return row;
  }

  /** @throws group_in_use while such a run is on its way */
  checkIdle(group: string, isMeant: (run: { readonly chat: string }) => boolean = () => true): void {
    const busy = this.#rows
      .openRuns()
      .find(
        (run) => run.group === group && (run.state === 'running' || run.sandbox !== null) && isMeant(run),
      );
    if (busy !== undefined)
      throw new AppError('group_in_use', `Run ${busy.run} of group "${group}" is on its way`);
  }

  #info({ body, volume, createdMs, createdBy }: GroupRow): Group {
    const open = this.#rows.openRuns().filter(({ group }) => group === body.name);
    return {
      ...body,
      memory_mb: body.memory_mb ?? null,
      volume,
      created_at: rfc3339(createdMs),
      created_by: createdBy,
      queued: open.filter(({ state }) => state === 'queued').length,
      running: open.filter(({ state }) => state === 'running').length,
    };
  }

  #chatInfo({ body, session, createdMs }: ChatRow): Chat {
    return {
      ...body,
      session,
      created_at: rfc3339(createdMs),
      waiting: this.#rows.waiting(body.name).length,
    };
  }
}

function checkOwn(name: string): void {
  if (builtInTiers.some((tier) => tier.name === name))
    throw new AppError('tier_built_in', `Cannot change tier "${name}"`);
}

export function full(what: string, count: number): AppError {
  return new AppError('group_limit', `There are ${count} ${what}, which is the most`);
}
