/**
 * Keeps one egress process alive: adopts the one that runs, starts one where none does, replaces one of another
 * version, starts it again when it dies. After each of these it is told everything anew (`onUp`), before anybody is
 * told that it is up. Its first start may be put off until somebody wants it.
 *
 * What a newcomer would get wrong: while it is down sandboxes have no network, never an open one; so nothing here
 * is urgent enough to hold up the daemon. Whoever needs the process asks `up()` and lives with the answer.
 */
import { errorText } from '@squash/base/bug';
import { systemClock } from '@squash/base/clock';
import { Failure } from '@squash/base/failure';
import type { Log } from '@squash/base/log';
import { pause } from '@squash/base/pause';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { EgressIdentity } from '@squash/contract/egress-protocol';
import type { EgressClient } from './egress-client.ts';
import { endStarted, killEgress, type StartedEgress } from './egress-process.ts';

export interface SupervisorOptions {
  readonly client: EgressClient;
  /** Version that a running process must have to be kept. */
  readonly version: string;
  readonly start: () => Promise<StartedEgress>;
  /** One that was started before, and is under its memory limit: it is taken in place of a first start. Put off: none was, and none is before it is wanted. */
  readonly first?: { readonly take: () => StartedEgress | undefined; readonly isPutOff?: boolean };
  /** Puts a new process under its memory limit. */
  readonly confine: (pid: number) => Promise<void>;
  /** Tells the process everything. It counts as up when this resolves. */
  readonly onUp: () => Promise<void>;
  readonly log: Log;
  /** How long a new process is waited for at once, and how often; the limits' own unless given. */
  readonly patience?: { readonly startMs: number; readonly waitsMax: number };
  /** How often a process that is up is looked at, and how long it may be silent; the limits' own unless given. */
  readonly looks?: { readonly lookMs: number; readonly hungMs: number };
}

type Phase = 'starting' | 'up' | 'down';

export class EgressSupervisor implements AsyncDisposable {
  readonly #options: SupervisorOptions;
  readonly #stopping = new AbortController();
  /** Aborted: its first start is put off no longer. */
  readonly #wanted = new AbortController();
  #isWantedSoon = false;
  readonly #done: Promise<void>;
  #phase: Phase = 'starting';
  #isUnknown = true;
  #settled = Promise.withResolvers<void>();
  #ended: Promise<string> | undefined;
  /** Of this daemon's own start, until it has ended. */
  #own: StartedEgress | undefined;
  /** It is the one that answers or is going to, and was told nothing yet. */
  #isDeaf: boolean;

  /** Begins at once, where the first start is not put off. */
  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#isDeaf = options.first?.isPutOff === true;
    this.#done = this.#run();
  }

  get isUp(): boolean {
    return this.#phase === 'up';
  }

  /** A new process that hears no sandbox before it is told everything, and is not late; or none before somebody wants it. */
  get isComing(): boolean {
    return this.#phase === 'starting' && this.#isDeaf;
  }

  /** Whether one answers that an earlier daemon has left, or this one's own comes up, is not known yet: the first look is not over. */
  get isUnknown(): boolean {
    return this.#isUnknown;
  }

  /** Ends the putting off. */
  want(): void {
    this.#wanted.abort();
  }

  /** The same, when a command that begins now has had the processors for itself. */
  wantBehindCommand(): void {
    if (this.#isWantedSoon) return;
    this.#isWantedSoon = true;
    void pause(limits.egressBehindCommandMs, this.#stopping.signal).then(() => this.want());
  }

  /** Waits for a start in progress, and wants one that is put off. False where the process is down and its next start is some time away. */
  async up(): Promise<boolean> {
    this.want();
    if (this.#phase === 'starting') await this.#settled.promise;
    return this.isUp;
  }

  /** For a daemon that ends with all that it started. A process that it started and that does not answer yet, or any more, can't be asked to end. */
  async endOwn(): Promise<void> {
    if (this.#own === undefined) return;
    await endStarted(this.#own);
  }

  /** Leaves the process running. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    let failures = 0;
    if (this.#options.first?.isPutOff === true) {
      await pause(limits.egressWantedMs, AbortSignal.any([signal, this.#wanted.signal]));
    }
    while (!signal.aborted) {
      try {
        const identity = await this.#bringUp();
        await this.#tell();
        this.#isDeaf = false;
        failures = 0;
        this.#become('up');
        this.#options.log.info('egress.up', { pid: identity.pid, version: identity.version });
        await this.#watch(identity);
        if (signal.aborted) break;
        this.#become('starting');
        this.#options.log.warn('egress.gone', { pid: identity.pid });
      } catch (error) {
        if (signal.aborted) break;
        this.#isDeaf = false;
        failures += 1;
        this.#options.log.error('egress.start', { error: errorText(error), failures });
        this.#become('down');
        await pause(Math.min(limits.egressRetryMs * 2 ** failures, limits.egressRetryMsMax), signal);
        this.#become('starting');
      }
    }
    this.#become('down');
  }

  #become(phase: Phase): void {
    if (this.#phase !== 'starting' && phase === 'starting') this.#settled = Promise.withResolvers<void>();
    this.#phase = phase;
    if (phase === 'starting') return;
    this.#isUnknown = false;
    this.#settled.resolve();
  }

  /** A process of our version that answers. @throws where none can be had */
  async #bringUp(): Promise<EgressIdentity> {
    const first = this.#options.first?.take();
    if (first !== undefined) return await this.#firstAnswer(first);
    const present = await this.#identity();
    if (present?.version === this.#options.version) {
      // It may have been started while there was no launcher to do it, and a new launcher's groups are new.
      await this.#confine(present.pid);
      return present;
    }
    if (present !== undefined) await this.#replace(present);
    // From here on: one that is made meanwhile waits for no start.
    this.#isDeaf = true;
    const started = await this.#options.start();
    await this.#confine(started.pid);
    return await this.#firstAnswer(started);
  }

  /** Who stops does not wait for one that stands still. @throws the signal's reason then */
  async #tell(): Promise<void> {
    const { signal } = this.#stopping;
    const { promise: stopped, reject } = Promise.withResolvers<never>();
    const stop = (): void => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    try {
      await Promise.race([this.#options.onUp(), stopped]);
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  async #confine(pid: number): Promise<void> {
    try {
      await this.#options.confine(pid);
    } catch (error) {
      // V8's own limit holds; the group's is the second wall.
      this.#options.log.warn('egress.confine', { error: errorText(error) });
    }
  }

  async #identity(answerMsMax?: number): Promise<EgressIdentity | undefined> {
    try {
      return await this.#options.client.identity(answerMsMax);
    } catch (error) {
      if (error instanceof AppError && error.code === 'egress_unavailable') return undefined;
      throw error;
    }
  }

  async #replace(identity: EgressIdentity): Promise<void> {
    this.#options.log.info('egress.replace', { pid: identity.pid, version: identity.version });
    await stopEgress(this.#options.client);
  }

  /** While it lives no other is started, however late it answers: two would only make each other later. */
  async #firstAnswer(started: StartedEgress): Promise<EgressIdentity> {
    const { pid, ended } = started;
    this.#ended = ended;
    this.#own = started;
    this.#isDeaf = true;
    void ended.then(() => {
      if (this.#own !== started) return;
      this.#own = undefined;
      this.#isDeaf = false;
    });
    const { signal } = this.#stopping;
    const { startMs, waitsMax } = this.#options.patience ?? {
      startMs: limits.egressStartMs,
      waitsMax: limits.egressStartWaitsMax,
    };
    let end: string | undefined;
    void ended.then((how) => (end = how));
    for (let waits = 1; !signal.aborted; waits += 1) {
      const late = AbortSignal.timeout(startMs);
      const isOver = AbortSignal.any([late, signal]);
      while (!isOver.aborted) {
        if (end !== undefined)
          throw new Failure('ended_at_start', `it ended at its start (${end}): log/egress.log says why`);
        // Nobody who stops waits longer for one that hangs.
        const identity = await this.#identity(limits.egressLookAnswerMs);
        if (identity !== undefined) return identity;
        // It binds its socket once, after some hundred milliseconds; there is nothing to wait on before.
        await pause(limits.egressRetryMs / 10, isOver);
      }
      if (signal.aborted) break;
      this.#options.log.error('egress.late', { pid, waits });
      this.#become('down');
      // Our own child, not yet reaped: the number is its own.
      if (waits >= waitsMax) killEgress(pid);
    }
    throw new Failure('stopped', 'nobody waits for it any more');
  }

  /** Returns when that process is gone. One that lives and does not answer is no process to anybody: it is ended. */
  async #watch(identity: EgressIdentity): Promise<void> {
    const { signal } = this.#stopping;
    const { lookMs, hungMs } = this.#options.looks ?? {
      lookMs: limits.egressLookMs,
      hungMs: limits.egressHungMs,
    };
    let isSilent = false;
    let heardMs = systemClock.monoMs();
    for (;;) {
      await this.#untilGoneOr(lookMs, isSilent);
      if (signal.aborted) return;
      const now = await this.#identity(limits.egressLookAnswerMs);
      if (now !== undefined && (now.pid !== identity.pid || now.started !== identity.started)) return;
      if (now !== undefined) {
        if (isSilent) {
          // What changed meanwhile was not said to it.
          await this.#tell();
          this.#become('up');
        }
        isSilent = false;
        heardMs = systemClock.monoMs();
        continue;
      }
      if (!isAlive(identity.pid)) return;
      isSilent = true;
      const silentMs = Math.round(systemClock.monoMs() - heardMs);
      this.#become('down');
      this.#options.log.error('egress.silent', { pid: identity.pid, silentMs });
      if (silentMs < hungMs) continue;
      killEgress(identity.pid);
      return;
    }
  }

  /** A server that ends connections which say nothing has not died: who comes back asks it. One that is silent has none to hear an end by. */
  async #untilGoneOr(ms: number, isSilent: boolean): Promise<void> {
    const looking = new AbortController();
    const stop = AbortSignal.any([this.#stopping.signal, looking.signal]);
    const gone = isSilent ? pause(ms, stop) : this.#options.client.untilGone(stop);
    const ended = this.#ended?.then(() => {
      this.#ended = undefined;
    });
    await Promise.race([gone, pause(ms, stop), ...(ended === undefined ? [] : [ended])]);
    looking.abort();
  }
}

/** Ends the process where one runs, and waits until it is gone; past its time it is killed. */
export async function stopEgress(client: EgressClient, answerMsMax?: number): Promise<void> {
  let pid: number;
  try {
    ({ pid } = await client.identity(answerMsMax));
    await client.stop();
  } catch (error) {
    if (error instanceof AppError && error.code === 'egress_unavailable') return;
    throw error;
  }
  const late = AbortSignal.timeout(limits.egressStopMs);
  await client.untilGone(late);
  // It told its number a moment ago and still holds its socket, so the number is still its own.
  if (late.aborted) killEgress(pid);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
