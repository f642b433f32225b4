/** A number of places for requests that each take much: who finds none is told to come again. */
import { AppError } from '@squash/contract/errors';

export class Places {
  readonly #what: string;
  readonly #max: number;
  #taken = 0;

  /** @param what in the plural, for the sentence */
  constructor(what: string, max: number) {
    this.#what = what;
    this.#max = max;
  }

  /** @throws stream_limit */
  async hold<T>(body: () => Promise<T>): Promise<T> {
    if (this.#taken >= this.#max) {
      throw new AppError('stream_limit', `${this.#max} ${this.#what} are in progress: try again later`);
    }
    this.#taken += 1;
    try {
      return await body();
    } finally {
      this.#taken -= 1;
    }
  }
}
