/**
 * Started engines, some of them waiting. A run takes one that waits; the next is started behind its back. A worker whose run hit a
 * limit, crashed or was ended never serves again.
 */
import { CodemodeError } from '../errors.ts';
import type { Place } from '../places/place.ts';
import type { EngineName } from '../protocol/frames.ts';
import { Peer } from './peer.ts';

export interface PoolOptions {
  readonly engine: EngineName;
  readonly memoryMb: number;
  /** Workers kept waiting. */
  readonly spares: number;
  /** Workers at the same time; further runs wait. */
  readonly workersMax: number;
  /** Runs that one process serves, each in a realm of its own. */
  readonly runsPerWorker: number;
  readonly startMsMax: number;
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

export class Pool {
  readonly #place: Place;
  readonly #options: PoolOptions;
  readonly #idle: Peer[] = [];
  readonly #all = new Set<Peer>();
  /** Processes that exist or are being started. */
  #count = 0;
  /** Of these, the ones that will wait for a run soon: a start behind the scenes, a realm booted after a run. */
  #coming = 0;
  readonly #waiters: Waiter[] = [];
  readonly #starts = new Set<Promise<Peer>>();
  readonly #closing = new AbortController();

  constructor(place: Place, options: PoolOptions) {
    this.#place = place;
    this.#options = options;
  }

  /** For a test and for status: processes that exist now. */
  get size(): number {
    return this.#count;
  }

  /** @throws CodemodeError `aborted` or `unavailable` */
  async acquire(signal: AbortSignal): Promise<Acquired> {
    if (this.#closing.signal.aborted) throw new CodemodeError('aborted', 'the executor is disposed');
    const waiting = this.#takeIdle();
    if (waiting !== undefined) {
      this.#replenish();
      return { peer: waiting, warm: true };
    }
    // One that boots its next realm is ready long before a new process is.
    const soon = this.#coming > this.#waiters.length;
    const peer =
      !soon && this.#count < this.#options.workersMax ? await this.#start(signal) : await this.#wait(signal);
    this.#replenish();
    return { peer, warm: soon };
  }

  async warm(): Promise<void> {
    const missing = this.#options.spares - this.#idle.length;
    const started = Array.from({ length: Math.max(0, missing) }, () => this.#start(this.#closing.signal));
    for (const peer of await Promise.all(started)) this.#offer(peer);
  }

  /** Back from a run. */
  release(peer: Peer, isFit: boolean): void {
    peer.end();
    if (!isFit || peer.isGone || peer.runs >= this.#options.runsPerWorker || this.#closing.signal.aborted) {
      this.#discard(peer);
      return;
    }
    this.#coming += 1;
    const late = setTimeout(() => peer.placed.kill(), this.#options.startMsMax).unref();
    void peer.ready
      .then(
        () => true,
        () => false,
      )
      .then((booted) => {
        this.#coming -= 1;
        clearTimeout(late);
        if (booted) this.#offer(peer);
        else this.#discard(peer);
      });
  }

  async dispose(): Promise<void> {
    this.#closing.abort(new CodemodeError('aborted', 'the executor is disposed'));
    await Promise.all([...this.#all].map((peer) => peer.kill()));
    // One that was being started when the others ended has come up meanwhile, or failed.
    await Promise.allSettled(this.#starts);
    await Promise.all([...this.#all].map((peer) => peer.kill()));
    await this.#place.dispose?.();
  }

  #takeIdle(): Peer | undefined {
    for (let peer = this.#idle.pop(); peer !== undefined; peer = this.#idle.pop()) {
      if (!peer.isGone) return peer;
    }
    return undefined;
  }

  #offer(peer: Peer): void {
    if (this.#closing.signal.aborted || peer.isGone) return this.#discard(peer);
    const waiter = this.#waiters.shift();
    if (waiter !== undefined) return waiter.resolve(peer);
    // One more than the spares: the worker of the run before, whose place a spare has taken meanwhile.
    const idleMax = this.#options.spares + (this.#options.runsPerWorker > 1 ? 1 : 0);
    if (this.#idle.length >= idleMax) return this.#discard(peer);
    this.#idle.push(peer);
    peer.placed.hold(false);
  }

  #discard(peer: Peer): void {
    void peer.kill().then(() => this.#replenish());
  }

  /** Starts what is missing: spares, or a worker for whoever waits. */
  #replenish(): void {
    const wanted = Math.max(this.#options.spares - this.#idle.length, this.#waiters.length) - this.#coming;
    const room = this.#options.workersMax - this.#count;
    if (Math.min(wanted, room) < 1 || this.#closing.signal.aborted) return;
    this.#coming += 1;
    void this.#start(this.#closing.signal).then(
      (peer) => {
        this.#coming -= 1;
        this.#offer(peer);
      },
      (failure) => {
        this.#coming -= 1;
        // Without anyone waiting it shows at the next run, which starts one itself.
        this.#waiters.shift()?.reject(failure);
      },
    );
  }

  /** Whoever ends the pool waits for what is on its way. */
  async #start(signal: AbortSignal): Promise<Peer> {
    const starting = this.#startOne(signal);
    this.#starts.add(starting);
    try {
      return await starting;
    } finally {
      this.#starts.delete(starting);
    }
  }

  async #startOne(signal: AbortSignal): Promise<Peer> {
    const { engine, memoryMb, runsPerWorker, startMsMax, engineCountsCpu = false } = this.#options;
    this.#count += 1;
    const placed = await this.#place.start().catch((failure: unknown) => {
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
    return peer;
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
