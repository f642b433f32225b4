/**
 * Groups, as the daemon's API and their agents use them: over what is stored and sandboxes alone (`rows.ts`, `ports.ts`).
 *
 * What waits and what runs is in the rows and nowhere else: the next daemon reads it there.
 */
import type { Log } from '@squash/base/log';
import type { Action } from '@squash/contract/actions';
import type { AuditCaller } from '@squash/contract/audit';
import type {
  Chat,
  ChatChange,
  ChatCreate,
  Group,
  GroupChange,
  GroupCreate,
  MessageBody,
  MessageTaken,
  OutMessage,
  Run,
} from '@squash/contract/groups';
import type { Tier, TierBody } from '@squash/contract/tiers';
import { Acts, actionOf, type Deciding } from './acts.ts';
import { Intake } from './intake.ts';
import type { RunSandboxes, Witness } from './ports.ts';
import { promptCount } from './prompt.ts';
import { nextTurn } from './queue.ts';
import { Registry } from './registry.ts';
import type { ActionFilter, GroupRows, RunRow } from './rows.ts';
import { Runner } from './runner.ts';
import { Said } from './said.ts';
import type { ScheduleRows } from './schedule-rows.ts';
import { type ScheduleOperations, Scheduler } from './scheduler.ts';
import { Schedules } from './schedules.ts';
import { outOf, runOf, Views } from './views.ts';
import { Warm } from './warm.ts';

export interface GroupsOptions {
  readonly rows: GroupRows;
  readonly scheduleRows: ScheduleRows;
  readonly sandboxes: RunSandboxes;
  readonly witness: Witness;
  readonly nowMs: () => number;
  readonly log: Log;
}

/** The operations, a method each. What is stored throws `disk_full`. */
export interface Groups {
  readonly schedules: ScheduleOperations;
  tiers(): readonly Tier[];
  setTier(name: string, body: TierBody): Tier;
  removeTier(name: string): void;
  groups(): readonly Group[];
  group(name: string): Group;
  createGroup(body: GroupCreate): Group;
  updateGroup(name: string, change: GroupChange): Group;
  removeGroup(name: string, by: AuditCaller): Promise<void>;
  runs(group: string, limit: number): readonly Run[];
  actions(filter: ActionFilter, limit: number): readonly Action[];
  decide(number: number, deciding: Deciding): Action;
  chats(): readonly Chat[];
  createChat(body: ChatCreate): Chat;
  updateChat(name: string, change: ChatChange): Chat;
  removeChat(name: string): Promise<void>;
  resetChat(name: string): Promise<void>;
  message(chat: string, body: MessageBody): MessageTaken;
  said(chat: string, after: number, limit: number): readonly OutMessage[];
  /** The number of what was said last; 0: nothing was. */
  lastSaid(chat: string): number;
  /** Each as it is said, behind `after`. It ends with the chat. */
  follow(chat: string, after: number, signal: AbortSignal): AsyncIterable<OutMessage>;
}

/** A run that could not be cleared is tried again so late. */
const clearAgainMs = 5_000;

export class LocalGroups implements Groups, AsyncDisposable {
  readonly schedules: Scheduler;
  readonly #options: GroupsOptions;
  readonly #rows: GroupRows;
  readonly #registry: Registry;
  readonly #intake: Intake;
  readonly #acts: Acts;
  readonly #warm: Warm;
  readonly #runner: Runner;
  readonly #said: Said;
  readonly #stopping = new AbortController();
  /** By run. */
  readonly #carried = new Map<number, Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;

  constructor(options: GroupsOptions) {
    const { rows, scheduleRows, nowMs, log, witness } = options;
    this.#options = options;
    this.#rows = rows;
    const registry = (this.#registry = new Registry(rows));
    const intake = (this.#intake = new Intake(rows, registry));
    const schedules = new Schedules(scheduleRows, registry);
    const acts = (this.#acts = new Acts({ rows, registry, intake, schedules, nowMs, log, witness }));
    const scheduler = { ...options, schedules, registry, intake, changed: (): void => this.#look() };
    this.schedules = new Scheduler(scheduler);
    const views = new Views({ rows, registry, schedules, witness });
    const remove = (run: number): Promise<void> => this.#carry(run, () => this.#runner.clear(run));
    const warm = (this.#warm = new Warm({ ...options, registry, remove }));
    const said = (this.#said = new Said(rows));
    const changed = (): void => this.#changed();
    this.#runner = new Runner({ ...options, registry, acts, views, warm, said, changed });
  }

  /** Goes on with what an earlier daemon began, or this one could not end. */
  begin(): void {
    for (const { run, state, sandbox } of this.#rows.openRuns()) {
      if (this.#carried.has(run) || this.#warm.has(run)) continue;
      if (state === 'running') void this.#carry(run, () => this.#runner.carry(run, this.#stopping.signal));
      else if (sandbox !== null) void this.#carry(run, () => this.#runner.clear(run));
    }
    this.#changed();
  }

  tiers(): readonly Tier[] {
    return this.#registry.tiers();
  }

  setTier(name: string, body: TierBody): Tier {
    const tier = this.#rows.transaction(() => this.#registry.setTier(name, body));
    void this.#warm.end(({ group }) => this.#registry.tierOf(group).name === name);
    this.#look();
    return tier;
  }

  removeTier(name: string): void {
    this.#rows.transaction(() => this.#registry.removeTier(name));
  }

  groups(): readonly Group[] {
    return this.#registry.groups();
  }

  group(name: string): Group {
    return this.#registry.describe(name);
  }

  createGroup(body: GroupCreate): Group {
    this.#registry.checkTier(body);
    for (const mount of body.mounts) this.#options.sandboxes.checkDirectory(mount);
    return this.#rows.transaction(() =>
      this.#registry.createGroup(body, { nowMs: this.#options.nowMs(), by: null }),
    );
  }

  updateGroup(name: string, change: GroupChange): Group {
    for (const mount of change.mounts ?? []) this.#options.sandboxes.checkDirectory(mount);
    const group = this.#rows.transaction(() => this.#registry.updateGroup(name, change));
    this.#changed();
    return group;
  }

  async removeGroup(name: string, by: AuditCaller): Promise<void> {
    await this.#cleared(({ group }) => group === name);
    await this.#withVolumes(() => {
      this.#registry.checkIdle(name);
      const { volume } = this.#registry.group(name);
      const chats = this.#rows.chats().filter(({ body }) => body.group === name);
      const change = (): void => {
        this.#acts.withdraw(name, by);
        this.#rows.deleteGroup(name);
      };
      return { volumes: [volume, ...chats.map(({ session }) => session)], change };
    });
  }

  runs(group: string, limit: number): readonly Run[] {
    this.#registry.group(group);
    return this.#rows.runsOf(group, limit).map(runOf);
  }

  actions(filter: ActionFilter, limit: number): readonly Action[] {
    return this.#rows.actions(filter, limit).map(actionOf);
  }

  decide(number: number, deciding: Deciding): Action {
    const action = this.#acts.decide(number, deciding);
    this.#changed();
    return action;
  }

  chats(): readonly Chat[] {
    return this.#registry.chats();
  }

  createChat(body: ChatCreate): Chat {
    return this.#rows.transaction(() => this.#registry.createChat(body, { nowMs: this.#options.nowMs() }));
  }

  updateChat(name: string, change: ChatChange): Chat {
    return this.#rows.transaction(() => this.#registry.updateChat(name, change));
  }

  async removeChat(name: string): Promise<void> {
    await this.#cleared(({ chat }) => chat === name);
    await this.#withVolumes(() => {
      const { session } = this.#registry.idleChat(name);
      return { volumes: [session], change: () => this.#rows.deleteChat(name) };
    });
  }

  async resetChat(name: string): Promise<void> {
    await this.#cleared(({ chat }) => chat === name);
    await this.#withVolumes(() => {
      const { session } = this.#registry.idleChat(name);
      return { volumes: [session], change: () => this.#rows.setSession(name, null) };
    });
  }

  message(chat: string, body: MessageBody): MessageTaken {
    const taken = this.#rows.transaction(() =>
      this.#intake.take({ ...body, chat, depth: 0 }, this.#options.nowMs()),
    );
    this.#look();
    return taken;
  }

  said(chat: string, after: number, limit: number): readonly OutMessage[] {
    this.#registry.chat(chat);
    return this.#rows.out(chat, after, limit).map(outOf);
  }

  lastSaid(chat: string): number {
    this.#registry.chat(chat);
    return this.#rows.lastOut(chat);
  }

  follow(chat: string, after: number, signal: AbortSignal): AsyncIterable<OutMessage> {
    this.#registry.chat(chat);
    return this.#said.follow(chat, after, signal);
  }

  /** Runs go on in their sandboxes, for the next daemon. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#timer);
    this.#warm[Symbol.dispose]();
    this.schedules[Symbol.dispose]();
    await Promise.all(this.#carried.values());
  }

  /** A sandbox of a run that is over is on its way out, or kept: whoever removes what it had waits for its end. */
  async #cleared(isMeant: (run: Pick<RunRow, 'chat' | 'group'>) => boolean): Promise<void> {
    const over = this.#rows.openRuns().filter((row) => row.state !== 'running' && isMeant(row));
    await Promise.all(over.map(async ({ run }) => await this.#carried.get(run)));
    await this.#warm.end(isMeant);
  }

  /** Volumes go with the rows that name them, all or nothing; where one is in use nothing does. */
  async #withVolumes(
    plan: () => { readonly volumes: readonly (string | null)[]; readonly change: () => void },
  ): Promise<void> {
    const { sandboxes } = this.#options;
    const removals = this.#rows.transaction(() => {
      const { volumes, change } = plan();
      const begun = volumes.filter((volume) => volume !== null).map((volume) => sandboxes.removal(volume));
      change();
      return begun;
    });
    this.#said.tell();
    await Promise.all(removals.map((finish) => finish()));
  }

  #changed(): void {
    this.#said.tell();
    this.#look();
    this.schedules.wake();
  }

  /** Once for all that happens in one turn of the event loop. */
  #look(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
      if (this.#stopping.signal.aborted) return;
      try {
        this.#beginNext();
      } catch (error) {
        this.#options.log.error('group.queue', { error });
        this.#again(clearAgainMs);
      }
    });
  }

  #beginNext(): void {
    const nowMs = this.#options.nowMs();
    const tierOf = (group: string): Tier => this.#registry.tierOf(group);
    // In a sandbox that is kept nothing runs.
    const open = this.#rows.openRuns().filter(({ run }) => !this.#warm.has(run));
    const { begin, againMs } = nextTurn(open, { nowMs, tierOf });
    for (const run of begin) {
      this.#rows.transaction(() => this.#start(run, nowMs));
      void this.#carry(run, () => this.#runner.carry(run, this.#stopping.signal));
    }
    if (againMs !== null) this.#again(againMs - nowMs);
  }

  /** The messages are the run's from here on, and the sandbox has its id before it is made. */
  #start(run: number, nowMs: number): void {
    const row = this.#rows.run(run);
    if (row === undefined) return;
    // Once: what comes while it waits for its folder, or for another try, is for the run behind it.
    if (row.startedMs === null && !row.isIsolated) this.#give(row, nowMs);
    const depth = Math.max(0, ...this.#rows.messagesOf(run).map((message) => message.depth));
    const kept = row.isIsolated ? undefined : this.#warm.take(row.chat);
    const sandbox = kept ?? this.#options.sandboxes.newId();
    const isWarm = kept !== undefined;
    this.#rows.putRun({
      ...row,
      state: 'running',
      sandbox,
      isWarm,
      depth,
      startedMs: row.startedMs ?? nowMs,
    });
  }

  /** All that wait, as far as one prompt holds them; another run has the rest. */
  #give({ run, chat }: RunRow, nowMs: number): void {
    const waiting = this.#rows.waiting(chat);
    const count = promptCount(waiting);
    this.#rows.giveTo(
      run,
      waiting.slice(0, count).map(({ number }) => number),
    );
    const rest = waiting.slice(count);
    if (!rest.some(({ isStarting }) => isStarting)) return;
    const row = this.#rows.run(run);
    // It counts as one that runs from here on: another is made.
    if (row !== undefined) this.#rows.putRun({ ...row, state: 'running' });
    this.#intake.startFor(chat, nowMs);
  }

  #carry(run: number, body: () => Promise<void>): Promise<void> {
    const carried = body()
      .catch((error: unknown) => {
        this.#options.log.error('group.run', { run, error });
        this.#again(clearAgainMs);
      })
      .finally(() => {
        if (this.#carried.get(run) === carried) this.#carried.delete(run);
        if (!this.#stopping.signal.aborted) this.#look();
      });
    this.#carried.set(run, carried);
    return carried;
  }

  #again(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.begin(), ms).unref();
  }
}
