/**
 * One command from its start to its stored end: pulls the guest's events, stores output, acknowledges, and
 * decides how it ended.
 *
 * The order is what makes the daemon's death harmless: output is acknowledged only after it is stored, and the
 * guest is released only after the exit is stored. A connection that breaks is taken up again once at the
 * stored offsets; a guest that can't be reached any more is reported, and the sandbox ends the run.
 */
import { AppError } from '@squash/contract/errors';
import type { ExecRecord } from '@squash/contract/exec';
import { limits } from '@squash/contract/limits';
import { type Clock, steadyWallMs } from '@squash/base/clock';
import { asError } from '@squash/base/failure';
import { faultPoint } from '#sandbox/fault.ts';
import type { EndReason, ExecEnd, ExecRow, StreamName } from '#store/rows.ts';
import type { Driver } from '../drivers/driver.ts';
import type { Guest, GuestExec, GuestOutcome } from '../guest/guest.ts';
import type { Activity } from './activity.ts';
import { cutOffsOf } from './cut-offs.ts';
import { type Circumstances, forcedEnd, recordOf, reportedEnd, unstartedEnd } from './outcome.ts';
import type { Ending } from './kill-counts.ts';
import type { OutputPace } from './output-pace.ts';
import type { Recorder } from './recorder.ts';
import { StdinTurns } from './stdin-turns.ts';

/** Who looks on while a command runs: a stream client. Errors of its own are its own. */
export interface RunWatcher {
  /** Resolves when there is room for more: a slow reader stalls the command. */
  output(stream: StreamName, data: Buffer): Promise<void> | undefined;
  /** The command was stopped. True where the client knows what to do then. */
  stopped?(): boolean;
  /** The sandbox ends the run: nothing may wait for this client any more. */
  unblock(): void;
}

/** What a run needs of its sandbox. */
export interface RunHost {
  readonly clock: Clock;
  /** What ended commands for want of room while this one ran. */
  wanting(run: Run, ending: Ending): Promise<Pick<Circumstances, 'oomKilled' | 'upperFull'>>;
  /** PID 1 does not answer or does not obey: the sandbox restarts it and ends its runs. */
  guestBroken(why: string): void;
  /** The sandbox stands still: nobody in it can be late, nor for a moment afterwards. */
  readonly isFrozen: boolean;
  readonly activity: Pick<Activity, 'hasJustResumed'>;
  /** Knows whether anybody tells what becomes of the sandbox. */
  readonly world: { readonly driver: Pick<Driver, 'problems'> };
  /** When output that is followed may be stored. */
  readonly pace: OutputPace;
  /** The end is stored; also called when the run was left to the next daemon. */
  runOver(run: Run): void;
  storeFailed(run: Run, error: unknown): void;
}

export interface RunParts {
  readonly row: ExecRow;
  readonly recorder: Recorder;
  readonly guest: Guest;
  readonly host: RunHost;
  /** All of its standard input, where that was given at the start. */
  readonly input?: Buffer | undefined;
}

const storeRetryMs = 1_000;
const sighup = 1;
export const sigcont = 18;
const sigterm = 15;
const sigkill = 9;

export class Run {
  readonly row: ExecRow;
  readonly #parts: RunParts;
  readonly #done = Promise.withResolvers<ExecRecord>();
  readonly #forced = Promise.withResolvers<EndReason>();
  #forcedReason: EndReason | undefined;
  #exec: GuestExec | undefined;
  readonly #attached = Promise.withResolvers<GuestExec>();
  /** Whoever sends input takes turns. */
  readonly stdinTurns = new StdinTurns();
  readonly #watchers = new Set<RunWatcher>();
  #stdinEnded: boolean;
  #end: ExecEnd | undefined;
  #killWanted: boolean;
  #hangUpWanted = false;
  readonly #nowMs: () => number;
  #isLeft = false;
  /** What became of the first connection that failed: a guest's breach shows there, and not when it is asked again. */
  #whyLost: string | undefined;
  #flushTimer: NodeJS.Timeout | undefined;
  #flushNext: NodeJS.Immediate | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #killTimer: NodeJS.Timeout | undefined;
  #lostTimer: NodeJS.Timeout | undefined;
  #changed = Promise.withResolvers<void>();
  #isFollowed = false;
  #lookers = 0;

  constructor(parts: RunParts) {
    this.row = parts.row;
    this.#parts = parts;
    this.#killWanted = parts.row.killWanted;
    this.#stdinEnded = parts.row.stdinEnded;
    this.#nowMs = steadyWallMs(parts.host.clock, parts.row.startedMs);
    // Whoever does not wait for a job must not bring the process down when storing its end fails.
    this.#done.promise.catch(() => undefined);
  }

  /** The record, once it is stored. @throws disk_full where it could not be stored now, shutting_down */
  get done(): Promise<ExecRecord> {
    return this.#done.promise;
  }

  get end(): ExecEnd | undefined {
    return this.#end;
  }

  get exec(): GuestExec | undefined {
    return this.#exec;
  }

  /** The connection to the guest; of a command that a new daemon is just finding again, once it has. @throws as `done` */
  async attached(): Promise<GuestExec | undefined> {
    return this.#exec ?? (await Promise.race([this.#attached.promise, this.done.then(() => undefined)]));
  }

  #connect(exec: GuestExec): void {
    this.#exec = exec;
    this.#attached.resolve(exec);
  }

  /** Somebody waits for it, or follows it, until this is disposed of. */
  look(): Disposable {
    this.#lookers += 1;
    return { [Symbol.dispose]: () => void (this.#lookers -= 1) };
  }

  get isLookedAt(): boolean {
    return this.#lookers > 0;
  }

  /** Resolves at the next change of what is stored. Whoever waits has output stored sooner. */
  changed(): Promise<void> {
    if (!this.#isFollowed) {
      this.#isFollowed = true;
      // What was taken before anybody looked on waits no longer than what comes.
      if (this.#flushTimer !== undefined) this.#flushSoon();
    }
    return this.#changed.promise;
  }

  /** Follows the command. Called once, with the connection on which it was started or attached. */
  follow(exec: GuestExec, watcher?: RunWatcher): void {
    this.#connect(exec);
    if (watcher !== undefined) this.watch(watcher);
    this.#armDeadline();
    if (this.#parts.input !== undefined) this.#feed(exec);
    if (this.#killWanted) exec.signal(sigkill);
    void this.#pump(exec);
  }

  /** Finds the command in the guest again, at the stored offsets; a guest that does not know it is asked no more. */
  resume(why?: AppError): void {
    this.#whyLost = why?.message;
    this.#armDeadline();
    void this.#pump(undefined);
  }

  /** The command could not be started: its row ends with what a shell would report, and why on stderr. */
  unstarted(isMissing: boolean, why: string): void {
    this.#parts.recorder.take('stderr', Buffer.from(`${why}\n`));
    this.#finish(unstartedEnd(isMissing, this.#nowMs()));
  }

  /** A stream's client is connected. */
  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }

  watch(watcher: RunWatcher): void {
    this.#watchers.add(watcher);
  }

  /** The client is gone: what it would have taken is only stored. */
  unwatch(watcher: RunWatcher): void {
    this.#watchers.delete(watcher);
  }

  /** The row as it is now, with the bytes that were taken. */
  get present(): ExecRow {
    return { ...this.#parts.recorder.row(), stdinEnded: this.#stdinEnded, end: this.#end };
  }

  /** The row says so already: a daemon that takes over says it to the guest again. */
  endStdin(): void {
    this.#stdinEnded = true;
    this.#exec?.endStdin();
  }

  /** Its client is gone: SIGHUP, once more where the connection is just being replaced. */
  hangUp(): void {
    this.#hangUpWanted = true;
    this.#exec?.signal(sighup);
  }

  /** TERM now, KILL after the grace; a guest that ignores even that is restarted. */
  kill(): void {
    this.#killWanted = true;
    this.#exec?.signal(sigterm);
    this.#killTimer ??= setTimeout(() => {
      this.#exec?.signal(sigkill);
      this.#killTimer = setTimeout(
        () => this.#parts.host.guestBroken(`exec ${this.row.seq} did not end after SIGKILL`),
        limits.execTimeoutSlackMs,
      );
    }, limits.execKillGraceMs);
  }

  /** The sandbox ends PID 1, or it ended: what still arrives is taken, then the run ends with this reason. */
  expectEnd(reason: EndReason): void {
    this.#forcedReason ??= reason;
    this.#forced.resolve(this.#forcedReason);
    for (const watcher of this.#watchers) watcher.unblock();
  }

  /** Ends the run with what has arrived. */
  force(reason: EndReason): void {
    this.expectEnd(reason);
    this.#exec?.close();
    this.#finish(forcedEnd(this.#forcedReason ?? reason, this.#nowMs()));
  }

  /** The daemon stops: the command goes on and the next daemon finds it. */
  leave(): void {
    if (this.#isLeft || this.#end !== undefined) return;
    this.#isLeft = true;
    this.#clearTimers();
    try {
      this.#parts.recorder.flush();
    } catch {
      // What could not be stored was not acknowledged: the guest keeps it for the next daemon.
    }
    this.#exec?.close();
    this.#done.reject(
      new AppError(
        'shutting_down',
        `Cannot wait for exec ${this.row.seq}: the daemon stops; the command goes on`,
      ),
    );
    this.#parts.host.runOver(this);
  }

  /** With no connection yet, begins by attaching. A connection that breaks is replaced once. */
  async #pump(first: GuestExec | undefined): Promise<void> {
    let exec = first;
    let known = cutOffsOf(this.#parts.host);
    for (let attachesLeft = 1; ; attachesLeft -= 1) {
      if (exec !== undefined) {
        const failure = await this.#drain(exec);
        if (failure === undefined || this.#isLeft || this.#end !== undefined) return;
        this.#whyLost ??= failure.message;
      }
      const cutOffs = cutOffsOf(this.#parts.host);
      if (cutOffs > known) attachesLeft = 1;
      known = cutOffs;
      if (this.#forcedReason !== undefined || attachesLeft === 0) break;
      const found = await this.#reattach();
      if (found === 'unknown') this.expectEnd('lost');
      if (found === 'unknown' || found === undefined) break;
      exec = found;
    }
    if (this.#isLeft || this.#end !== undefined) return;
    this.force(this.#forcedReason ?? (await this.#waitForForce()));
  }

  /** Events until the exit or a failure. */
  async #drain(exec: GuestExec): Promise<Error | undefined> {
    try {
      for await (const event of exec.events()) {
        if (this.#isLeft || this.#end !== undefined) return undefined;
        if (event.type === 'exit') {
          await this.#exited(exec, event.outcome);
          return undefined;
        }
        if (event.type === 'stopped') {
          this.#stopped(exec);
          continue;
        }
        this.#take(event.stream, event.data);
        faultPoint('exec.output');
        for (const watcher of this.#watchers) {
          const room = watcher.output(event.stream, event.data);
          if (room !== undefined && this.#forcedReason === undefined) await room;
        }
      }
      return new AppError('guest_failed', 'the connection ended before the exit');
    } catch (error) {
      return asError(error);
    }
  }

  /** Whom nobody would continue goes on at once. */
  #stopped(exec: GuestExec): void {
    const isKnown = [...this.#watchers].some((watcher) => watcher.stopped?.() === true);
    if (!isKnown) exec.signal(sigcont);
  }

  /** What was given, from where the guest has it, and its end. A connection that breaks in it is replaced, and fed again. */
  #feed(exec: GuestExec): void {
    const rest = this.#parts.input?.subarray(exec.stdinReceived);
    if (rest !== undefined && rest.length > 0) exec.writeStdin(rest).catch(() => undefined);
    exec.endStdin();
  }

  #take(stream: StreamName, data: Buffer): void {
    const { recorder } = this.#parts;
    recorder.take(stream, data);
    if (recorder.unstoredBytes >= limits.outputFlushBytes) this.#flush();
    else if (this.#flushTimer === undefined) this.#flushSoon();
  }

  #flushSoon(): void {
    this.#clearFlush();
    const waitMs = this.#patienceMs();
    // A timer waits a millisecond at least, which is a third of a whole exec.
    if (waitMs === 0) this.#flushNext = setImmediate(() => this.#flush());
    this.#flushTimer = setTimeout(() => this.#flush(), waitMs);
  }

  #clearFlush(): void {
    clearTimeout(this.#flushTimer);
    clearImmediate(this.#flushNext);
    this.#flushTimer = undefined;
  }

  /** An exec's client gets all at the end: only a follower gains by an earlier transaction. */
  #patienceMs(): number {
    return this.#isFollowed ? this.#parts.host.pace.waitMs() : limits.outputFlushMs;
  }

  #flush(): void {
    this.#clearFlush();
    if (this.#isLeft || this.#end !== undefined) return;
    const beganMs = performance.now();
    try {
      const offsets = this.#parts.recorder.flush();
      this.#parts.host.pace.stored(beganMs);
      this.#exec?.ack(offsets.stdout, offsets.stderr);
      this.#notify();
    } catch (error) {
      // Not stored, so not acknowledged: the command stalls at its window until there is room again.
      this.#parts.host.storeFailed(this, error);
      this.#flushTimer = setTimeout(() => this.#flush(), storeRetryMs);
    }
  }

  async #exited(exec: GuestExec, outcome: GuestOutcome): Promise<void> {
    const { host } = this.#parts;
    faultPoint('exec.exited');
    const finishedMs = this.#nowMs();
    const isClean = outcome.exitCode === 0 || outcome.timedOut || this.#killWanted;
    const wasKilled = outcome.signal === sigkill || outcome.exitCode === 128 + sigkill;
    const wanting = isClean
      ? { oomKilled: false, upperFull: false }
      : await host.wanting(this, { wasKilled, oomKills: outcome.oomKills });
    const seen: Circumstances = { killWanted: this.#killWanted, ...wanting };
    // The sandbox may have ended the run while the kernel's counter was read.
    if (this.#end !== undefined || this.#isLeft) return;
    this.#finish(reportedEnd(outcome, finishedMs, seen));
    faultPoint('exec.finished');
    if (this.#end !== undefined) exec.release();
    faultPoint('exec.released');
    exec.close();
  }

  /** Stores the end; while that fails the run stays, and tries again. */
  #finish(end: ExecEnd): void {
    if (this.#end !== undefined || this.#isLeft) return;
    const { recorder, host } = this.#parts;
    this.#clearTimers();
    try {
      recorder.finish(end);
    } catch (error) {
      host.storeFailed(this, error);
      this.#done.reject(asError(error));
      this.#flushTimer = setTimeout(() => this.#finish(end), storeRetryMs);
      return;
    }
    this.#end = end;
    const streams = { stdout: recorder.head('stdout'), stderr: recorder.head('stderr') };
    this.#done.resolve(recordOf(recorder.row(), end, streams));
    this.#notify();
    host.runOver(this);
  }

  async #reattach(): Promise<GuestExec | 'unknown' | undefined> {
    try {
      const exec = await this.#parts.guest.attach(this.row.execId, this.#parts.recorder.rewind());
      if (this.#isLeft || this.#end !== undefined) {
        exec.close();
        return undefined;
      }
      this.#connect(exec);
      if (this.#killWanted) exec.signal(sigkill);
      else if (this.#hangUpWanted) exec.signal(sighup);
      if (this.#stdinEnded) this.#feed(exec);
      return exec;
    } catch (error) {
      // A guest that answers and does not know the exec never started it, or has been released.
      if (error instanceof AppError && error.code === 'exec_failed') return 'unknown';
      this.#whyLost ??= error instanceof Error ? error.message : String(error);
      return undefined;
    }
  }

  /** PID 1 can't be reached: most often it just died and the launcher's word is on its way. */
  #waitForForce(): Promise<EndReason> {
    this.#lostTimer = setTimeout(() => {
      // A dead launcher takes PID 1 along and says no word; the next daemon does.
      const { host } = this.#parts;
      const isUntold = host.world.driver.problems().some(({ code }) => code === 'launcher_unavailable');
      if (isUntold) void this.#waitForForce();
      else host.guestBroken(`exec ${this.row.seq} is lost: ${this.#whyLost ?? 'no answer'}`);
    }, limits.runSettleMs);
    return this.#forced.promise;
  }

  /** PID 1 ends the command at its timeout; this is for a PID 1 that does not. */
  #armDeadline(): void {
    const { timeoutMs, startedMs } = this.row;
    if (timeoutMs === undefined) return;
    const elapsedMs = this.#nowMs() - startedMs;
    const leftMs = Math.max(0, timeoutMs - elapsedMs) + limits.execKillGraceMs + limits.execTimeoutSlackMs;
    this.#deadline = setTimeout(() => this.#overdue(), leftMs);
  }

  #overdue(): void {
    const { host } = this.#parts;
    if (host.isFrozen || host.activity.hasJustResumed) {
      this.#deadline = setTimeout(() => this.#overdue(), limits.execTimeoutSlackMs);
      return;
    }
    this.expectEnd('timed_out');
    host.guestBroken(`exec ${this.row.seq} outlived its timeout`);
  }

  #clearTimers(): void {
    this.#clearFlush();
    clearTimeout(this.#deadline);
    clearTimeout(this.#killTimer);
    clearTimeout(this.#lostTimer);
  }

  #notify(): void {
    const before = this.#changed;
    this.#isFollowed = false;
    this.#changed = Promise.withResolvers<void>();
    before.resolve();
  }
}
