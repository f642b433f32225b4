/** What an agent sees of groups, chats, runs and schedules: its own, and others' where its tier says so. */
import { AppError } from '@squash/contract/errors';
import { groupLimits } from '@squash/contract/group-limits';
import type { OutMessage, Run } from '@squash/contract/groups';
import { rfc3339 } from '@squash/base/clock';
import { type Actor, isOwn } from './act-table.ts';
import { judge } from './judge.ts';
import type { Registry } from './registry.ts';
import type { Look, Witness } from './ports.ts';
import type { GroupRows, OutRow, RunRow } from './rows.ts';
import type { Schedules } from './schedules.ts';

export interface ViewsOptions {
  readonly rows: GroupRows;
  readonly registry: Registry;
  readonly schedules: Schedules;
  readonly witness: Witness;
}

export class Views {
  readonly #rows: GroupRows;
  readonly #registry: Registry;
  readonly #schedules: Schedules;
  readonly #witness: Witness;

  constructor({ rows, registry, schedules, witness }: ViewsOptions) {
    this.#rows = rows;
    this.#registry = registry;
    this.#schedules = schedules;
    this.#witness = witness;
  }

  self({ group, run }: Actor): { readonly chat: string | null; readonly [field: string]: unknown } {
    return { group, run, chat: this.#rows.run(run)?.chat ?? null, tier: this.#registry.tierOf(group) };
  }

  groups(actor: Actor): object {
    const sees = this.#sees(actor);
    return { items: this.#rows.groupNames(sees.only).filter(({ name }) => sees.group(name)) };
  }

  chats(actor: Actor): object {
    const sees = this.#sees(actor);
    return { items: this.#rows.chatNames(sees.only).filter(({ group }) => sees.group(group)) };
  }

  /** @throws forbidden, group_not_found */
  runs(actor: Actor, group: string): object {
    this.#check(actor, 'look.runs', group === actor.group);
    this.#registry.group(group);
    return { items: this.#rows.runsOf(group, groupLimits.pageItemsDefault).map(runOf) };
  }

  /** @throws forbidden, chat_not_found */
  messages(actor: Actor, chat: string, after: number): object {
    this.#check(actor, 'look.messages', isOwn(this.#rows, chat, actor));
    this.#registry.chat(chat);
    const from = Number.isSafeInteger(after) && after >= 0 ? after : 0;
    return { items: page(this.#rows.out(chat, from, groupLimits.pageItemsDefault).map(outOf)) };
  }

  /** Of all chats that it sees, or of one. @throws forbidden, chat_not_found */
  schedules(actor: Actor, chat: string | undefined): object {
    if (chat === undefined) {
      const sees = this.#sees(actor);
      const seen = this.#schedules.list({ group: sees.only }).filter(({ group }) => sees.group(group));
      return { items: seen.slice(0, groupLimits.pageItemsMax) };
    }
    this.#check(actor, 'look.schedules', isOwn(this.#rows, chat, actor));
    this.#registry.chat(chat);
    return { items: this.#schedules.list({ chat }) };
  }

  /** Its tier is read once, however many there are; `only`: the one group of which anything need be looked for. */
  #sees(actor: Actor): { readonly group: (name: string) => boolean; readonly only: string | undefined } {
    const tier = this.#registry.tierOf(actor.group);
    const [own, others] = [true, false].map(
      (isOwn) => judge(tier, { right: 'read', isOwn }).effect === 'allow',
    );
    return {
      group: (name) => (name === actor.group ? own : others) === true,
      only: others === true ? undefined : actor.group,
    };
  }

  /** Nobody is asked for a look: what would be held is refused. */
  #check({ group, run }: Actor, asked: Look, own: boolean): void {
    const { effect, rule } = judge(this.#registry.tierOf(group), { right: 'read', isOwn: own });
    if (effect === 'allow') return;
    const sandbox = this.#rows.run(run)?.sandbox ?? null;
    this.#witness.decided({ action: null, asked, group, run, sandbox, state: 'unseen', rule, by: null });
    throw new AppError('forbidden', rule);
  }
}

/** The first of them, as far as one answer holds them; one is always among them, and `after` goes on behind the last. */
function page(items: readonly OutMessage[]): readonly OutMessage[] {
  let bytes = 0;
  const over = items.findIndex((item) => {
    bytes += Buffer.byteLength(JSON.stringify(item));
    return bytes > groupLimits.viewBytesMax;
  });
  return over === -1 ? items : items.slice(0, Math.max(1, over));
}

export function outOf({ number, chat, text, by, run, action, atMs }: OutRow): OutMessage {
  return { message: number, chat, text, by, run, action, at: rfc3339(atMs) };
}

export function runOf(row: RunRow): Run {
  const {
    run,
    group,
    chat,
    state,
    attempt,
    reason,
    exitCode,
    sandbox,
    isWarm,
    outputBytes,
    isTruncated,
    depth,
  } = row;
  const at = (ms: number | null): string | null => (ms === null ? null : rfc3339(ms));
  return {
    run,
    group,
    chat,
    state,
    attempt,
    reason,
    exit_code: exitCode,
    sandbox,
    warm: isWarm,
    warm_until: at(row.warmUntilMs),
    output_bytes: outputBytes,
    truncated: isTruncated,
    depth,
    created_at: rfc3339(row.createdMs),
    started_at: at(row.startedMs),
    finished_at: at(row.finishedMs),
  };
}
