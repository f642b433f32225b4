/**
 * What waits to be brought to the bucket: one after the other behind everybody's back, and again until it is there.
 *
 * What is here and not there is found by comparing when the daemon starts, so no list of it has to survive the daemon.
 */
import { errorText } from '@squash/base/bug';
import type { Log } from '@squash/base/log';
import { pause } from '@squash/base/pause';
import { AppError } from '@squash/contract/errors';

const retryMsMin = 1_000;
const retryMsMax = 300_000;

export interface PushWork<Item> {
  /** Adds what an earlier daemon did not get to. */
  readonly compare: () => Promise<void>;
  /** @throws an `AppError` where it is gone or of no use; anything else: the bucket fails, and it is tried again */
  readonly push: (item: Item) => Promise<void>;
  /** A small question to the bucket. */
  readonly probe: () => Promise<unknown>;
  readonly log: Log;
}

export class PushQueue<Item> implements AsyncDisposable {
  readonly #work: PushWork<Item>;
  readonly #waiting = new Map<string, Item>();
  readonly #end = new AbortController();
  readonly #working: Promise<void>;
  #wake = Promise.withResolvers<void>();
  #failure: string | undefined;
  #failures = 0;
  /** Since it did last what was asked of it. */
  #failuresNow = 0;
  #isCompared = false;

  /** `ready`: when comparing may begin. */
  constructor(work: PushWork<Item>, ready: Promise<unknown>) {
    this.#work = work;
    this.#working = Promise.race([ready, this.#ended()]).then(() => this.#run());
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** What the bucket failed with last, until it does not any more. */
  get failure(): string | undefined {
    return this.#failure;
  }

  get failures(): number {
    return this.#failures;
  }

  get(key: string): Item | undefined {
    return this.#waiting.get(key);
  }

  items(): readonly Item[] {
    return [...this.#waiting.values()];
  }

  add(key: string, item: Item): void {
    this.#waiting.set(key, item);
    this.#wake.resolve();
  }

  /** It is there by now. One that has changed again meanwhile is another push. */
  done(key: string, item: Item): void {
    if (this.#waiting.get(key) === item) this.#waiting.delete(key);
  }

  /** The bucket failed whoever asked it: it is asked again, though nothing waits, so that the problem is taken back when it is over. */
  fail(error: unknown): void {
    if (this.#end.signal.aborted) return;
    this.#failures += 1;
    this.#failuresNow += 1;
    this.#failure = errorText(error);
    const times = this.#failuresNow;
    // Whoever is refused asks again and again: the first, the second, the fourth, …
    if (Number.isInteger(Math.log2(times))) this.#work.log.warn('bucket.failed', { times, error });
    this.#wake.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort(new AppError('shutting_down', 'Cannot reach the bucket: the daemon stops'));
    this.#wake.resolve();
    await this.#working;
  }

  #ended(): Promise<void> {
    return new Promise((resolve) =>
      this.#end.signal.addEventListener('abort', () => resolve(), { once: true }),
    );
  }

  async #run(): Promise<void> {
    const { signal } = this.#end;
    for (let waitMs = retryMsMin; !signal.aborted; ) {
      this.#wake = Promise.withResolvers<void>();
      try {
        if (!this.#isCompared) await this.#work.compare();
        this.#isCompared = true;
        await this.#pushAll();
        // A failed pull or list: this one says whether it is over.
        if (this.#failure !== undefined) await this.#work.probe();
        this.#failure = undefined;
        this.#failuresNow = 0;
        waitMs = retryMsMin;
        await this.#wake.promise;
      } catch (error) {
        this.fail(error);
        await pause(waitMs, signal);
        waitMs = Math.min(waitMs * 2, retryMsMax);
      }
    }
  }

  /** All of them are tried: what is too large for the bucket must not keep back the others. */
  async #pushAll(): Promise<void> {
    let failure: unknown;
    for (const [key, item] of this.#waiting) {
      if (this.#end.signal.aborted) return;
      try {
        await this.#work.push(item);
      } catch (error) {
        // Gone meanwhile, or not sound: whoever uses it is told why.
        if (!(error instanceof AppError)) {
          failure = error;
          continue;
        }
      }
      this.done(key, item);
    }
    if (failure !== undefined) throw failure;
  }
}
