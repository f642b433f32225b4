/**
 * Turns by bytes: of the bytes that pass this process, read or carried to a proxy, each sandbox passes as many as another one before it waits, however many
 * connections it has. Node serves every socket that has something to say in one round of its event loop; without turns
 * a sandbox with two hundred downloads has two hundred pieces in each round, and its neighbour's request, which
 * takes some rounds, waits for all of them.
 *
 * What a newcomer would get wrong: nothing is measured in time, and nothing waits where only one sandbox has any. A turn
 * ends with a round of the event loop, so it lasts as long as what was passed in it has taken.
 */
import { egressLimits as limits } from '../limits.ts';

export class ByteTurns {
  /** Connections whose bytes come here, by sandbox. */
  readonly #readers = new Map<string, number>();
  /** Passed and not yet paid for by turns. */
  readonly #owed = new Map<string, number>();
  /** In the order in which they came. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isRoundDue = false;

  enter(who: string): void {
    this.#readers.set(who, (this.#readers.get(who) ?? 0) + 1);
  }

  leave(who: string): void {
    const left = (this.#readers.get(who) ?? 0) - 1;
    if (left > 0) this.#readers.set(who, left);
    else this.#readers.delete(who);
    if (this.#readers.size < 2) this.#release();
  }

  /** So many bytes have been passed. A promise: the next ones have to wait for it. */
  spend(who: string, bytes: number): Promise<void> | undefined {
    if (this.#readers.size < 2) return undefined;
    const owed = (this.#owed.get(who) ?? 0) + bytes;
    this.#owed.set(who, owed);
    this.#expectRound();
    const queue = this.#waiting.get(who);
    const hasLeft = owed < limits.turnBytes;
    if (queue === undefined && hasLeft) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    if (queue === undefined) this.#waiting.set(who, [resolve]);
    else queue.push(resolve);
    // The turn goes on with the first in line: pieces may be small, and rounds cost something.
    if (hasLeft) queue?.shift()?.();
    return promise;
  }

  /** For one stream of it: what is spent comes together first. Stopping a stream and starting it again costs as much as a small piece does. */
  payer(who: string): (size: number) => Promise<void> | undefined {
    let unpaid = 0;
    return (size) => {
      unpaid += size;
      if (unpaid < limits.pieceBytes) return undefined;
      const paid = unpaid;
      unpaid = 0;
      return this.spend(who, paid);
    };
  }

  #expectRound(): void {
    if (this.#isRoundDue) return;
    this.#isRoundDue = true;
    setImmediate(() => this.#next());
  }

  #next(): void {
    this.#isRoundDue = false;
    for (const [who, owed] of this.#owed) {
      const left = owed - limits.turnBytes;
      if (left > 0) this.#owed.set(who, left);
      else this.#owed.delete(who);
    }
    for (const [who, queue] of this.#waiting) {
      // Each of them is counted when it has passed its piece.
      const room = limits.turnBytes - (this.#owed.get(who) ?? 0);
      for (const go of queue.splice(0, Math.ceil(Math.max(0, room) / limits.pieceBytes))) go();
      if (queue.length === 0) this.#waiting.delete(who);
    }
    if (this.#owed.size > 0 || this.#waiting.size > 0) this.#expectRound();
  }

  #release(): void {
    for (const queue of this.#waiting.values()) for (const go of queue) go();
    this.#waiting.clear();
    this.#owed.clear();
  }
}

/** Of all that passes this process. */
export const byteTurns = new ByteTurns();
