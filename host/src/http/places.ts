/**
 * A number of places for what takes much or lasts long: who finds none is told to come again. No owner has more than half of
 * them, so that clients of one that hang, or mean it, leave room for everybody else's. The operator may have all.
 */
import { AppError } from '@squash/contract/errors';

export class Places {
  readonly #what: string;
  readonly #max: number;
  readonly #byOwner = new Map<string, number>();
  #taken = 0;

  /** @param what in the plural and with its verb, for the sentence */
  constructor(what: string, max: number) {
    this.#what = what;
    this.#max = max;
  }

  get taken(): number {
    return this.#taken;
  }

  /** @param owner null: the operator @throws stream_limit */
  check(owner: string | null): void {
    const again = 'end one or try again later';
    if (this.#taken >= this.#max) throw new AppError('stream_limit', `${this.#max} ${this.#what}: ${again}`);
    if (owner === null) return;
    const own = this.#byOwner.get(owner) ?? 0;
    if (own < Math.ceil(this.#max / 2)) return;
    throw new AppError(
      'stream_limit',
      `Of owner "${owner}" ${own} ${this.#what}, and no owner has more than half of ${this.#max}: ${again}`,
    );
  }

  /** Whoever takes one gives it back, once or more often. @throws stream_limit */
  take(owner: string | null): () => void {
    this.check(owner);
    this.#count(owner, 1);
    let isHeld = true;
    return () => {
      if (isHeld) this.#count(owner, -1);
      isHeld = false;
    };
  }

  /** @throws stream_limit */
  async hold<T>(owner: string | null, body: () => Promise<T>): Promise<T> {
    const release = this.take(owner);
    try {
      return await body();
    } finally {
      release();
    }
  }

  #count(owner: string | null, change: number): void {
    this.#taken += change;
    if (owner === null) return;
    const own = (this.#byOwner.get(owner) ?? 0) + change;
    if (own === 0) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, own);
  }
}
