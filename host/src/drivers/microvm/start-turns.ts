/**
 * Boots take turns, as many at once as the host has processors: an emulated one takes a whole processor for all of its time, and of
 * twenty that share one none would be there within its time.
 */
import { availableParallelism } from 'node:os';

export class StartTurns {
  readonly #waiting: (() => void)[] = [];
  #free = availableParallelism();

  /** Runs `work` when it is its turn. Who gives up meanwhile waits to its turn all the same, and does nothing in it. */
  async take<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      signal?.throwIfAborted();
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
