/**
 * A rate with a burst: what one sandbox may ask for, so that the others get their turn.
 */
export class TokenBucket {
  readonly #perS: number;
  readonly #burst: number;
  #tokens: number;
  #atMs: number;

  constructor(rate: { readonly perS: number; readonly burst: number }, nowMs: number) {
    this.#perS = rate.perS;
    this.#burst = rate.burst;
    this.#tokens = rate.burst;
    this.#atMs = nowMs;
  }

  /** True: one token is taken. `nowMs` is monotonic. */
  take(nowMs: number): boolean {
    this.#tokens = Math.min(this.#burst, this.#tokens + ((nowMs - this.#atMs) / 1_000) * this.#perS);
    this.#atMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  /** How long until there is a token, after `take` said no. */
  get waitMs(): number {
    return Math.ceil(((1 - this.#tokens) / this.#perS) * 1_000);
  }
}
