/**
 * Boots take turns, as many at once as the host has processors: an emulated one takes a whole processor for all of its time, and of
 * twenty that share one none would be there within its time. Where several owners wait, the one with the fewest boots under way is next:
 * who makes a hundred VMs delays another one's by a boot. Alone he has all turns.
 */
import { availableParallelism } from 'node:os';
import { unlessAborted } from '@squash/base/unless-aborted';

export class StartTurns {
  /** By owner, in the order of their turns; each one's in the order in which they came. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #underWay = new Map<string, number>();
  #free = availableParallelism();

  /** Runs `work` when it is its turn. @throws the signal's reason where whoever asks gives up before that */
  async take<T>(owner: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0) this.#begin(owner);
    else await this.#turn(owner, signal);
    try {
      signal?.throwIfAborted();
      return await work();
    } finally {
      this.#end(owner);
    }
  }

  async #turn(owner: string, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const queue = this.#waiting.get(owner) ?? new Set();
    this.#waiting.set(owner, queue.add(resolve));
    try {
      await unlessAborted(promise, signal);
    } catch (error) {
      // Else the turn came in the same moment.
      if (!queue.delete(resolve)) this.#end(owner);
      else if (queue.size === 0) this.#waiting.delete(owner);
      throw error;
    }
  }

  #begin(owner: string): void {
    this.#free -= 1;
    this.#underWay.set(owner, this.#underWayOf(owner) + 1);
  }

  #end(owner: string): void {
    this.#free += 1;
    const left = this.#underWayOf(owner) - 1;
    if (left > 0) this.#underWay.set(owner, left);
    else this.#underWay.delete(owner);
    this.#next();
  }

  #next(): void {
    const owners = [...this.#waiting.keys()];
    const fewest = Math.min(...owners.map((owner) => this.#underWayOf(owner)));
    const owner = owners.find((each) => this.#underWayOf(each) === fewest);
    const queue = owner === undefined ? undefined : this.#waiting.get(owner);
    const [begin] = queue ?? [];
    if (owner === undefined || queue === undefined || begin === undefined) return;
    queue.delete(begin);
    // To the end of the line, where he has more.
    this.#waiting.delete(owner);
    if (queue.size > 0) this.#waiting.set(owner, queue);
    this.#begin(owner);
    begin();
  }

  #underWayOf(owner: string): number {
    return this.#underWay.get(owner) ?? 0;
  }
}
