/** Lets things begin at a bounded rate; what comes faster waits its turn, in order. */
import { TokenBucket } from '../token-bucket.ts';

export class Admission {
  readonly #bucket: TokenBucket;
  readonly #monoMs: () => number;
  readonly #waiting: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(rate: { readonly perS: number; readonly burst: number }, monoMs: () => number) {
    this.#bucket = new TokenBucket(rate, monoMs());
    this.#monoMs = monoMs;
  }

  /** At once where the rate allows it now. How many wait is the caller's to bound. */
  admit(begin: () => void): void {
    if (this.#waiting.length === 0 && this.#bucket.take(this.#monoMs())) begin();
    else {
      this.#waiting.push(begin);
      this.#arm();
    }
  }

  /** What waits never begins. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting.length = 0;
  }

  #arm(): void {
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined;
        while (this.#waiting.length > 0 && this.#bucket.take(this.#monoMs())) this.#waiting.shift()?.();
        if (this.#waiting.length > 0) this.#arm();
      },
      Math.max(1, this.#bucket.waitMs),
    );
  }
}
