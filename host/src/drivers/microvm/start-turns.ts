/**
 * Boots take turns, as many at once as the host has processors: an emulated one takes a whole processor for all of its time, and of
 * twenty that share one none would be there within its time.
 */
import { availableParallelism } from 'node:os';
import { unlessAborted } from '@squash/base/unless-aborted';

export class StartTurns {
  readonly #waiting: (() => void)[] = [];
  #free = availableParallelism();

  /** Runs `work` when it is its turn. @throws the signal's reason where whoever asks gives up before that */
  async take<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(signal);
    try {
      signal?.throwIfAborted();
      return await work();
    } finally {
      this.#passOn();
    }
  }

  async #turn(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    try {
      await unlessAborted(promise, signal);
    } catch (error) {
      const at = this.#waiting.indexOf(resolve);
      // The turn came in the same moment.
      if (at === -1) this.#passOn();
      else this.#waiting.splice(at, 1);
      throw error;
    }
  }

  #passOn(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}
