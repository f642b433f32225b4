/**
 * Started engines, some of them waiting. A run takes one that waits, or the next that is free; nobody who waits owns a start, so that no end of
 * a run takes away what another waits for. A worker whose run hit a limit, crashed or was ended never serves again.
 */
import { CodemodeError } from '../errors.ts';
import type { Place, PlacedWorker } from '../places/place.ts';
import type { EngineName } from '../protocol/frames.ts';
import { msUntilStart, startingMax } from './demand.ts';
import { Peer } from './peer.ts';

export interface PoolOptions {
  readonly engine: EngineName;
  readonly memoryMb: number;
  /** Workers kept waiting. Where one serves a single run, as many as were used at once in the last minute, if that is more; 0 keeps none. */
  readonly spares: number;
  /** Workers at the same time; further runs wait. */
  readonly workersMax: number;
  /** Runs that one process serves, each in a realm of its own. */
  readonly runsPerWorker: number;
  readonly startMsMax: number;
  /** Of the place alone, before there is a process; `placeMsMax` unless given. */
  readonly placeMsMax?: number;
  /** The place can't: see `EngineLimits`. */
  readonly engineCountsCpu?: boolean;
}

export interface Acquired {
  readonly peer: Peer;
  readonly warm: boolean;
}

interface Waiter {
  readonly resolve: (peer: Peer) => void;
  readonly reject: (failure: unknown) => void;
}

/** Beyond what the code may hold: a frame being built, the engine's own growth. */
const slackMb = 64;
/** The first start in a container builds its image, on a machine that may be slow. */
const placeMsMax = 300_000;
/** How long it is remembered how many workers were used at once. */
const peakMs = 60_000;
/** After a start that failed, while other workers serve. */
const retryMs = 1000;

export class Pool {
  readonly #place: Place;
  readonly #options: PoolOptions;
  readonly #idle: Peer[] = [];
  /** Since when each has its run; it has it until its next realm is booted. */
  readonly #busy = new Map<Peer, number>();
  readonly #all = new Set<Peer>();
  /** Processes that exist or are being started. */
  #count = 0;
  readonly #waiters: Waiter[] = [];
  readonly #starts = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  #turnMs = 0;
  /** Unknown until one has come up: nobody can tell before whether a second is worth it. */
  #startMs = Number.POSITIVE_INFINITY;
  #retryAt = 0;
  #lookAgain: NodeJS.Timeout | undefined;
  /** The most workers that were wanted at once, in the last `peakMs` and in the time before. */
  #peaks: readonly [number, number] = [0, 0];
  #forget: NodeJS.Timeout | undefined;

  constructor(place: Place, options: PoolOptions) {
    this.#place = place;
    this.#options = options;
  }

  /** For a test and for status: processes that exist now. */
  get size(): number {
    return this.#count;
  }

  /** Of these, the ones that wait for a run. */
  get idle(): number {
    return this.#idle.length;
  }

  /** @throws CodemodeError `aborted` or `unavailable` */
  async acquire(signal: AbortSignal): Promise<Acquired> {
    if (this.#closing.signal.aborted) throw new CodemodeError('aborted', 'the executor is disposed');
    signal.throwIfAborted();
    const idle = this.#takeIdle();
    if (idle !== undefined) this.#busy.set(idle, performance.now());
    const taken = idle ?? this.#wait(signal);
    this.#rememberUse();
    this.#startMissing();
    const peer = await taken;
    return { peer, warm: idle !== undefined || peer.runs > 0 };
  }

  /** @throws CodemodeError `unavailable` */
  async warm(): Promise<void> {
    const missing = () => this.#options.spares - this.#idle.length;
    while (missing() > 0 && !this.#closing.signal.aborted) {
      const coming = [...this.#starts];
      const more = Math.max(0, Math.min(missing(), startingMax) - coming.length);
      await Promise.all([...Array.from({ length: more }, () => this.#start()), Promise.allSettled(coming)]);
    }
  }

  /** Back from a run. */
  release(peer: Peer, isFit: boolean): void {
    peer.end();
    if (!isFit || peer.isGone || peer.runs >= this.#options.runsPerWorker || this.#closing.signal.aborted) {
      this.#discard(peer);
      return;
    }
    const late = setTimeout(() => peer.placed.kill(), this.#options.startMsMax).unref();
    void peer.ready
      .then(
        () => this.#offer(peer),
        () => this.#discard(peer),
      )
      .finally(() => clearTimeout(late));
  }

  async dispose(): Promise<void> {
    this.#closing.abort(new CodemodeError('aborted', 'the executor is disposed'));
    clearTimeout(this.#lookAgain);
    clearTimeout(this.#forget);
    await Promise.all([...this.#all].map((peer) => peer.kill()));
    // One that was being started when the others ended has come up meanwhile, or failed.
    await Promise.allSettled(this.#starts);
    await Promise.all([...this.#all].map((peer) => peer.kill()));
    await this.#place.dispose?.();
  }

  get #servesOnce(): boolean {
    return this.#options.runsPerWorker === 1;
  }

  get #spares(): number {
    const { spares, workersMax } = this.#options;
    if (!this.#servesOnce || spares === 0) return spares;
    return Math.min(Math.max(spares, ...this.#peaks), workersMax);
  }

  /** A worker that serves once is gone after its run: what was used at once would have to be started at once again. */
  #rememberUse(): void {
    const used = this.#busy.size + this.#waiters.length;
    if (!this.#servesOnce || used <= this.#peaks[0]) return;
    this.#peaks = [used, this.#peaks[1]];
    this.#forget ??= setInterval(() => {
      this.#peaks = [this.#busy.size + this.#waiters.length, this.#peaks[0]];
      for (const surplus of this.#idle.splice(this.#spares)) this.#discard(surplus);
    }, peakMs).unref();
  }

  #takeIdle(): Peer | undefined {
    for (let peer = this.#idle.pop(); peer !== undefined; peer = this.#idle.pop()) {
      if (!peer.isGone) return peer;
    }
    return undefined;
  }

  #offer(peer: Peer): void {
    if (this.#closing.signal.aborted || peer.isGone) return this.#discard(peer);
    this.#noteTurn(peer);
    const waiter = this.#waiters.shift();
    if (waiter !== undefined) {
      this.#busy.set(peer, performance.now());
      waiter.resolve(peer);
    } else {
      // One more than the spares: the worker of the run before, whose place a spare has taken meanwhile.
      const idleMax = this.#spares + (this.#servesOnce ? 0 : 1);
      if (this.#idle.length >= idleMax) return this.#discard(peer);
      this.#idle.push(peer);
      peer.placed.hold(false);
    }
    this.#startMissing();
  }

  #discard(peer: Peer): void {
    this.#noteTurn(peer);
    void peer.kill().then(() => this.#startMissing());
  }

  #noteTurn(peer: Peer): void {
    const since = this.#busy.get(peer);
    if (since === undefined) return;
    this.#busy.delete(peer);
    // As much of the last as of all before it: what programs do now is what the next will do.
    this.#turnMs = (this.#turnMs + performance.now() - since) / 2;
  }

  /** Starts what is missing and worth it, or looks again when it may be. */
  #startMissing(): void {
    clearTimeout(this.#lookAgain);
    for (;;) {
      if (this.#closing.signal.aborted) return;
      const ms = this.#msUntilStart();
      if (ms > 0) {
        // Those who are waited for hold the program; this timer need not.
        if (ms < Number.POSITIVE_INFINITY)
          this.#lookAgain = setTimeout(() => this.#startMissing(), Math.ceil(ms)).unref();
        return;
      }
      this.#start().catch((failure: unknown) => this.#failStart(failure));
    }
  }

  #msUntilStart(): number {
    const now = performance.now();
    const ms = msUntilStart({
      waiting: this.#waiters.length,
      idle: this.#idle.length,
      starting: this.#starts.size,
      busyMs: [...this.#busy.values()].map((since) => now - since),
      spares: this.#spares,
      room: this.#options.workersMax - this.#count,
      turnMs: this.#turnMs,
      startMs: this.#startMs,
      servesOnce: this.#servesOnce,
    });
    const isServed = this.#busy.size + this.#starts.size > 0;
    return isServed ? Math.max(ms, this.#retryAt - now) : ms;
  }

  /** Where others serve or come up those who wait have them to wait for; else one is told, and the next start is for the next. */
  #failStart(failure: unknown): void {
    const isServed = this.#starts.size > 0 || (this.#busy.size > 0 && !this.#servesOnce);
    if (isServed) this.#retryAt = performance.now() + retryMs;
    else this.#waiters.shift()?.reject(failure);
    // Spares alone are not tried again: the next run shows what is the matter.
    if (this.#waiters.length > 0) this.#startMissing();
  }

  /** Whoever ends the pool waits for what is on its way. */
  async #start(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#starts.add(promise);
    let peer: Peer;
    try {
      peer = await this.#startOne();
    } finally {
      this.#starts.delete(promise);
      resolve();
    }
    this.#offer(peer);
  }

  async #startOne(): Promise<Peer> {
    const { engine, memoryMb, runsPerWorker, startMsMax, engineCountsCpu = false } = this.#options;
    const began = performance.now();
    this.#count += 1;
    const placed = await this.#placed().catch((failure: unknown) => {
      this.#count -= 1;
      throw failure;
    });
    const peer = new Peer(placed, {
      engine,
      limits: { memoryMb, runs: runsPerWorker, countsCpu: engineCountsCpu },
    });
    this.#all.add(peer);
    void peer.exited.then(() => {
      this.#all.delete(peer);
      this.#count -= 1;
    });
    const late = setTimeout(() => placed.kill(), startMsMax);
    const { signal } = this.#closing;
    const stop = () => placed.kill();
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    try {
      await peer.ready;
      await placed.limitMemory(memoryMb + slackMb);
    } catch (failure) {
      await peer.kill();
      throw signal.aborted ? signal.reason : failure;
    } finally {
      clearTimeout(late);
      signal.removeEventListener('abort', stop);
    }
    this.#startMs = performance.now() - began;
    return peer;
  }

  /** A place asks other programs (podman, the daemon), of which one may never answer. */
  async #placed(): Promise<PlacedWorker> {
    const { placeMsMax: msMax = placeMsMax } = this.#options;
    const { promise, reject } = Promise.withResolvers<never>();
    const late = setTimeout(
      () => reject(new CodemodeError('unavailable', `the engine's place did not answer within ${msMax}ms`)),
      msMax,
    );
    const starting = this.#place.start();
    try {
      return await Promise.race([starting, promise]);
    } catch (failure) {
      void starting.then(
        (placed) => placed.kill(),
        () => {},
      );
      throw failure;
    } finally {
      clearTimeout(late);
    }
  }

  async #wait(signal: AbortSignal): Promise<Peer> {
    const { promise, resolve, reject } = Promise.withResolvers<Peer>();
    const waiter: Waiter = { resolve, reject };
    const give = () => {
      const at = this.#waiters.indexOf(waiter);
      if (at >= 0) this.#waiters.splice(at, 1);
      reject(signal.aborted ? signal.reason : this.#closing.signal.reason);
    };
    this.#waiters.push(waiter);
    signal.addEventListener('abort', give, { once: true });
    this.#closing.signal.addEventListener('abort', give, { once: true });
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', give);
      this.#closing.signal.removeEventListener('abort', give);
    }
  }
}
