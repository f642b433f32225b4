/**
 * One sandbox: its row, its life, its running commands, and the one mailbox through which everything goes that
 * changes it. Commands run beside the mailbox, in parallel; information is answered from memory and never waits.
 *
 * State changes only in `apply`, which asks the pure `decide` and carries out its effects.
 */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { PolicySource } from '@squash/contract/policy';
import type { Warning } from '@squash/contract/sandbox';
import { bug } from '@squash/base/bug';
import type { Clock } from '@squash/base/clock';
import { faultPoint } from '#sandbox/fault.ts';
import type { EndReason, SandboxRow, SnapshotRow } from '#store/rows.ts';
import { shadowExecsMax } from '#store/repair.ts';
import type { SandboxChange, SandboxTable } from '#store/sandboxes.ts';
import type { LayerDigest } from '@squash/contract/ids';
import type { RunningSandbox } from '../drivers/driver.ts';
import type { Guest } from '../guest/guest.ts';
import { Activity } from './activity.ts';
import type { Surroundings } from './environment.ts';
import { commandDefaults } from './host-root.ts';
import type { SandboxEvent } from './event-port.ts';
import type { MemoryStart } from './fork-memory.ts';
import { type Ending, KillCounts, type Kills, noKills } from './kill-counts.ts';
import { type Life, type LifeEffect, type LifeEvent, type State, admitCommand, decide } from './lifecycle.ts';
import { Mailbox } from './mailbox.ts';
import type { NetworkRules } from './network.ts';
import type { Circumstances } from './outcome.ts';
import type { OutputPace } from './output-pace.ts';
import type { Run, RunHost } from './run.ts';
import { goOn } from './rest.ts';
import { rulesOf } from './rules.ts';
import { pushNew } from './snapshot-content.ts';
import { mendable, startSpec } from './start-spec.ts';
import { bringMissing, treesOf } from './trees.ts';
import { UpperUsageWatch } from './upper-usage.ts';
import type { World } from './world.ts';

/** How a change is written: see `Store`. */
type Commit = 'transaction' | 'durably' | 'pressing';

export class Sandbox implements RunHost {
  readonly world: World;
  readonly mailbox: Mailbox;
  readonly runs = new Map<number, Run>();
  readonly usage: UpperUsageWatch;
  readonly activity: Activity;
  /** Aborted when it is to be removed: what takes long and nobody wants any more is given up. */
  readonly removal = new AbortController();
  /** Of snapshots that are sent, which take no turn; with the trees that each needs until its end. */
  readonly merges = new Map<Promise<unknown>, readonly LayerDigest[]>();
  #row: SandboxRow;
  #snapshots: readonly SnapshotRow[];
  #life: Life = { state: { phase: 'creating' }, deathsMs: [] };
  #running: { readonly sandbox: RunningSandbox; readonly guest: Guest } | undefined;
  #waiters: (() => void)[] = [];
  #restartTimer: NodeJS.Timeout | undefined;
  readonly #kills = new KillCounts();
  #isClosed = false;
  #isFrozen = false;
  #resuming: Promise<void> | undefined;
  /** Found paused by this daemon, and not asked yet what runs in it. */
  unheard: RunningSandbox | undefined;
  /** It could not be started for want of something that may be back by now: the next command tries again. */
  #isMendable = false;
  /** Until it is over a power cut would take the sandbox, and with it what its programs synced. */
  #beingSynced: Promise<void> | undefined;
  /** A power cut may have taken its upper before it was on the disk: nothing in it ever was, and the next start makes an empty one. */
  mayLackUpper = false;
  goesOnFrom: MemoryStart | undefined;

  constructor(world: World, row: SandboxRow, snapshots: readonly SnapshotRow[]) {
    this.world = world;
    this.#row = row;
    this.#snapshots = snapshots;
    this.activity = new Activity(world.clock, row);
    this.mailbox = new Mailbox(row.id, limits.sandboxWaitersMax);
    this.usage = new UpperUsageWatch(world, () => this.#row);
  }

  get row(): SandboxRow {
    return this.#row;
  }

  get snapshots(): readonly SnapshotRow[] {
    return this.#snapshots;
  }

  get state(): State {
    return this.#life.state;
  }

  /** It stands still: nobody in it can answer. */
  get isFrozen(): boolean {
    return this.#isFrozen || this.state.phase === 'paused';
  }

  get pace(): OutputPace {
    return this.world.pace;
  }

  /** Runs `body`, in which the driver freezes the sandbox. */
  async whileFrozen<T>(body: () => Promise<T>): Promise<T> {
    this.#isFrozen = true;
    try {
      return await body();
    } finally {
      this.#isFrozen = false;
      this.#tellWaiters();
    }
  }

  /** Removed, or left to the next daemon. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The PID 1 that runs. Only valid until the next `await`. */
  get guest(): Guest {
    bug(this.#running !== undefined, `sandbox "${this.#row.id}" has no guest in phase ${this.state.phase}`);
    return this.#running.guest;
  }

  /** What does not hold for it as it should, now. */
  get warnings(): readonly Warning[] {
    const { driver } = this.world;
    return [
      // What the host can't enforce may have changed since the create, with the machine or its kernel.
      ...driver.warnings(this.#row),
      ...driver.problems().filter(({ code }) => code === 'disk_low'),
      ...(this.#running === undefined ? [] : driver.problemsOf(this.#running.sandbox)),
      ...this.#row.warnings,
    ];
  }

  /** Writes a change of the row, and what is told of it; `durably` where a file's removal relies on it. */
  change(change: SandboxChange, how: Commit = 'transaction', event?: SandboxEvent): void {
    const { store, events } = this.world;
    this.#row = store[how](() => {
      if (event !== undefined) events.tell(this.#row, event);
      return store.sandboxes.change(this.#row, change);
    });
    this.#follow();
  }

  /** What changes nothing in the row. It goes on where not even that has room. */
  tell(event: SandboxEvent): void {
    const { store, events, log } = this.world;
    try {
      store.pressing(() => events.tell(this.#row, event));
    } catch (error) {
      log.error('event.lost', { sandbox: this.#row.id, type: event.type, error });
    }
  }

  /** What the exec log changed in the row, within its transaction; the shadow file follows now and then. */
  tookSeq(seq: number, atMs: number): void {
    this.#row = { ...this.#row, nextSeq: seq + 1, lastActiveMs: atMs };
    if (seq % shadowExecsMax === 0) this.#follow();
  }

  /** Writes what changes in the table of snapshots together with the row, durably: files come and go by it. */
  commitSnapshots(commit: {
    readonly snapshots: readonly SnapshotRow[];
    readonly change: SandboxChange;
    readonly write: (table: SandboxTable, id: SandboxRow['id']) => void;
    readonly event: SandboxEvent | undefined;
  }): void {
    const { store, events } = this.world;
    this.#row = store.durably(() => {
      if (commit.event !== undefined) events.tell(this.#row, commit.event);
      commit.write(store.sandboxes, this.#row.id);
      return store.sandboxes.change(this.#row, commit.change);
    });
    pushNew(this, commit.snapshots);
    this.#snapshots = commit.snapshots;
    this.#follow();
  }

  /**
   * Replaces what the sandbox may reach. Not in the mailbox: it must not wait for a long snapshot, and only the row
   * and the network's own order are concerned.
   */
  async setPolicy(policy: PolicySource): Promise<void> {
    if (this.state.phase === 'destroying') {
      throw new AppError('sandbox_not_found', `Cannot change sandbox "${this.#row.id}": it is being removed`);
    }
    this.change({ policy }, 'transaction', { type: 'sandbox.updated', data: { changed: 'policy' } });
    await Promise.all([this.world.store.synced(), this.world.network.apply(this.#row.id)]);
  }

  /** What its commands find around them. */
  get surroundings(): Surroundings {
    const { id, env, hostRoot } = this.#row;
    const network = this.world.network.environment(id, this.rules, hostRoot !== null);
    return { id, network, image: commandDefaults(this.#row), own: env };
  }

  get rules(): NetworkRules {
    return rulesOf(this.#row);
  }

  setSnapshotDigest(snapshot: SnapshotRow, digest: LayerDigest): void {
    const { store } = this.world;
    this.#row = store.transaction(() => {
      store.sandboxes.setSnapshotDigest(this.#row.id, snapshot.label, digest);
      return store.sandboxes.change(this.#row, {});
    });
    this.#snapshots = this.#snapshots.map((known) =>
      known.label === snapshot.label ? { ...known, digest } : known,
    );
    this.#follow();
  }

  /** The instance commands go to now, waiting for a start in progress. @throws sandbox_not_ready, sandbox_busy */
  async ready(): Promise<number> {
    for (let triesLeft = 1; ; ) {
      const admission = admitCommand(this.state);
      this.activity.touch();
      if (admission.verdict === 'wake') {
        await this.resume();
        continue;
      }
      if (admission.verdict === 'go' && !this.#isFrozen) {
        if (this.#beingSynced === undefined) return admission.instance;
        await this.#beingSynced;
        continue;
      }
      if (admission.verdict === 'refuse' && triesLeft > 0 && this.#isMendable) {
        triesLeft -= 1;
        this.#startAgain();
      } else if (admission.verdict === 'refuse') {
        throw new AppError(admission.code, `Cannot use sandbox "${this.#row.id}": ${admission.why}`);
      }
      await this.#wait();
    }
  }

  /** What `ready` said holds still. */
  isAt(instance: number): boolean {
    const { state } = this;
    return state.phase === 'ready' && state.instance === instance && !this.#isFrozen;
  }

  apply(event: LifeEvent): void {
    const decision = decide(this.#life, event, limits);
    this.#life = decision.life;
    const { phase } = decision.life.state;
    if (phase !== 'ready' && phase !== 'paused') this.#running = undefined;
    for (const effect of decision.effects) this.#carryOut(effect);
  }

  /**
   * Starts PID 1 with this change of the row, which is committed with the new instance's number: a daemon that
   * finds another instance running knows that it belongs to what was before. Call from the mailbox. A microVM may take minutes.
   */
  async start(change: SandboxChange, how: Commit, event: SandboxEvent): Promise<void> {
    const { store, driver, layerLock, network } = this.world;
    const spec = await layerLock.shared(async () => {
      const trees = await this.trees(change);
      const trust = this.goesOnFrom?.like.trust ?? (await network.trustLayer(trees)) ?? null;
      this.change({ ...change, trust, instance: store[how](() => store.sandboxes.nextInstance()) }, how);
      faultPoint('start.committed');
      const upper = { makesUpper: this.mayLackUpper, memory: this.goesOnFrom?.files };
      return { ...startSpec(this.world, this.#row, { trees }), ...upper };
    });
    this.started(await driver.start(spec, this.removal.signal), event);
    this.mayLackUpper = false;
  }

  /** The trees this sandbox lies on with this change, topmost first. Hold `layerLock`. */
  trees(change: SandboxChange): Promise<readonly LayerDigest[]> {
    return treesOf(this.world, {
      row: { ...this.#row, ...change },
      snapshots: this.#snapshots,
      setSnapshotDigest: (snapshot, digest) => this.setSnapshotDigest(snapshot, digest),
      giveUp: this.removal.signal,
    });
  }

  /** Ends its rest, whoever asks first. @throws what `goOn` does */
  resume(): Promise<void> {
    this.#resuming ??= this.mailbox
      .post(() => goOn(this))
      .finally(() => {
        this.#resuming = undefined;
      });
    return this.#resuming;
  }

  /** A new daemon finds it standing still: its PID 1 can only be asked when it goes on. */
  foundPaused(sandbox: RunningSandbox, wakes: boolean): void {
    this.#running = { sandbox, guest: this.world.guestOf(sandbox) };
    this.unheard = sandbox;
    this.apply({ type: 'started', instance: sandbox.instance });
    this.apply({ type: 'paused', wakes });
  }

  /** PID 1 runs: started by us just now, or found by a new daemon. */
  started(sandbox: RunningSandbox, event?: SandboxEvent, kills: Kills = noKills): void {
    this.#kills.begin(kills);
    this.#running = { sandbox, guest: this.world.guestOf(sandbox) };
    this.unheard = undefined;
    if (this.#row.phase !== 'ready' || this.#row.failure !== null || this.#row.rest !== null) {
      this.change({ phase: 'ready', failure: null, rest: null }, 'transaction', event);
      this.syncs();
    } else if (event !== undefined) this.tell(event);
    this.apply({ type: 'started', instance: sandbox.instance });
  }

  /** Nobody waits for it but the first command: what that syncs must not outlive the sandbox's row. */
  syncs(): void {
    const syncing = this.world.store
      .synced()
      .catch((error: unknown) => this.world.log.error('sandbox.sync', { sandbox: this.#row.id, error }))
      .finally(() => {
        if (this.#beingSynced === syncing) this.#beingSynced = undefined;
      });
    this.#beingSynced = syncing;
  }

  /** The start did not work, and nothing is left to try. The row says why. */
  failed(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.world.log.error('sandbox.failed', { sandbox: this.#row.id, error });
    this.apply({ type: 'start-failed', message });
    this.#isMendable = error instanceof AppError && mendable.has(error.code);
    this.#keepFailure(message);
  }

  #startAgain(): void {
    this.#isMendable = false;
    this.apply({ type: 'replacing', reason: 'lost' });
    this.restart('lost');
  }

  #keepFailure(message: string): void {
    try {
      const event = { type: 'sandbox.failed', data: { reason: message } } as const;
      const isNews = this.#row.phase !== 'failed';
      this.change({ phase: 'failed', failure: message }, 'transaction', isNews ? event : undefined);
    } catch (error) {
      // The state in memory holds for this daemon; the next one finds out for itself.
      this.world.log.error('sandbox.failed', { sandbox: this.#row.id, error });
    }
  }

  /** Ends PID 1 and every command; they end with this reason. Call from the mailbox. */
  async stop(reason: EndReason): Promise<void> {
    this.apply({ type: 'replacing', reason });
    await this.world.driver.stop(this.#row.id);
    await this.settleRuns(reason);
  }

  /** Resolves when no command of the old instance is left: what their sockets still hold is read first. */
  async settleRuns(reason: EndReason): Promise<void> {
    const runs = [...this.runs.values()];
    if (runs.length === 0) return;
    const all = Promise.allSettled(runs.map((run) => run.done));
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, limits.runSettleMs);
    await Promise.race([all, late.promise]);
    clearTimeout(timer);
    for (const run of runs) run.force(reason);
  }

  nowMs(): number {
    return this.world.clock.wallMs();
  }

  get clock(): Clock {
    return this.world.clock;
  }

  wanting(run: Run, ending: Ending): Promise<Pick<Circumstances, 'oomKilled' | 'upperFull'>> {
    return this.#kills.wanting(this, run.row.seq, ending);
  }

  guestBroken(why: string): void {
    if (this.state.phase !== 'ready') return;
    this.world.log.guest(this.#row.id).warn('guest.broken', { why });
    this.pidOneEnded(this.state.instance);
  }

  /** PID 1 of this instance is gone or as good as gone. */
  pidOneEnded(instance: number): void {
    if (this.#isClosed || this.#row.phase === 'failed') return;
    this.apply({ type: 'died', instance, nowMs: this.world.clock.monoMs() });
    if (this.state.phase !== 'failed') return;
    this.#keepFailure(this.state.message);
    // One that only broke the protocol lives still, and nothing else would end it.
    this.world.driver.stop(this.#row.id).catch((error: unknown) => this.failed(error));
  }

  runOver(run: Run): void {
    this.runs.delete(run.row.seq);
    this.#kills.forget(run.row.seq);
    if (run.end === undefined) return;
    const { counters, store } = this.world;
    counters.execs[run.end.reason] += 1;
    this.usage.touch();
    // Pruning looks at every row of the history, so not at every command.
    if (run.row.seq % 16 !== 0) return;
    try {
      store.transaction(() =>
        store.execs.prune(this.#row.id, {
          rowsMax: limits.execHistoryMax,
          bytesMax: limits.execHistoryBytesMax,
        }),
      );
    } catch (error) {
      this.storeFailed(run, error);
    }
  }

  storeFailed(run: Run, error: unknown): void {
    this.world.log.guest(this.#row.id).error('exec.store', { seq: run.row.seq, error });
  }

  /** The daemon stops: commands go on, nothing of this process remains. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#restartTimer);
    this.usage.close();
    for (const run of this.runs.values()) run.leave();
    this.#tellWaiters();
  }

  #carryOut(effect: LifeEffect): void {
    switch (effect.do) {
      case 'tell-waiters':
        return this.#tellWaiters();
      case 'end-runs':
        for (const run of this.runs.values()) run.expectEnd(effect.reason);
        return;
      case 'restart':
        clearTimeout(this.#restartTimer);
        this.#restartTimer = setTimeout(() => this.restart('killed'), effect.afterMs);
        return;
    }
  }

  /** Queues a start of a sandbox that does not run. Nobody waits for it: failure is a state. */
  restart(reason: EndReason): void {
    const work = async (): Promise<void> => {
      // An operation that came first may have started it, or be removing it.
      if (this.state.phase !== 'restarting' || this.#isClosed) return;
      try {
        await this.world.driver.stop(this.#row.id);
        await this.settleRuns(reason);
        this.world.counters.restarts += 1;
        await this.start({}, 'pressing', { type: 'sandbox.restarted', data: { reason } });
      } catch (error) {
        this.failed(error);
      }
    };
    const { [this.#row.backend]: starts } = this.world.starts;
    this.mailbox
      .post(() => bringMissing(this, this.#row.layers).then(() => starts.run(work)))
      .catch((error: unknown) => {
        if (this.state.phase === 'restarting') this.failed(error);
      });
  }

  #follow(): void {
    if (this.#row.phase !== 'creating' && this.#row.phase !== 'destroying') {
      this.world.files.follow(this.#row, this.#snapshots);
    }
  }

  async #wait(): Promise<void> {
    if (this.#waiters.length >= limits.sandboxWaitersMax) {
      throw new AppError(
        'sandbox_busy',
        `Cannot use sandbox "${this.#row.id}": too many wait for its start: try again later`,
      );
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiters.push(resolve);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      resolve();
    }, limits.sandboxReadyWaitMs);
    await promise;
    clearTimeout(timer);
    this.#waiters = this.#waiters.filter((waiter) => waiter !== resolve);
    if ((isLate && !this.#isFrozen) || this.#isClosed) {
      throw new AppError(
        'sandbox_not_ready',
        `Cannot use sandbox "${this.#row.id}": it is being started: try again later`,
      );
    }
  }

  #tellWaiters(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}
