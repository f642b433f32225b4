/** Lets things begin at a bounded rate; what comes faster waits its turn, in order. */
import { TokenBucket } from '@squash/base/token-bucket';

export class Admission {
  readonly #bucket: TokenBucket;
  readonly #monoMs: () => number;
  readonly #waiting = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;

  constructor(rate: { readonly perS: number; readonly burst: number }, monoMs: () => number) {
    this.#bucket = new TokenBucket(rate, monoMs());
    this.#monoMs = monoMs;
  }

  /** At once where the rate allows it now. How many wait is the caller's to bound: who gives up has to `leave`. */
  admit(begin: () => void): void {
    if (this.#waiting.size === 0 && this.#bucket.take(this.#monoMs())) begin();
    else {
      this.#waiting.add(begin);
      this.#arm();
    }
  }

  /** Waits no more. */
  leave(begin: () => void): void {
    this.#waiting.delete(begin);
  }

  /** What waits never begins. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting.clear();
  }

  #arm(): void {
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined;
        for (const begin of this.#waiting) {
          if (!this.#bucket.take(this.#monoMs())) break;
          this.#waiting.delete(begin);
          begin();
        }
        if (this.#waiting.size > 0) this.#arm();
      },
      Math.max(1, this.#bucket.waitMs),
    );
  }
}
