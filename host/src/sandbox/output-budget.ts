/**
 * How much of the output of running processes is kept in the store, of each sandbox and of all together. Where the sum is used up,
 * each process keeps the least that a follower needs: nobody is refused, and what is dropped is told as a gap.
 *
 * What processes that have ended keep is the history's, which has bounds of its own.
 */
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';

export class OutputBudget {
  #bytes = 0;
  readonly #bySandbox = new Map<SandboxId, number>();

  /** A process keeps so much more, or less. */
  add(sandbox: SandboxId, bytes: number): void {
    this.#bytes += bytes;
    const sum = (this.#bySandbox.get(sandbox) ?? 0) + bytes;
    if (sum === 0) this.#bySandbox.delete(sandbox);
    else this.#bySandbox.set(sandbox, sum);
  }

  /** What one process may keep now, which asked for `wanted`. */
  allowed(sandbox: SandboxId, wanted: number): number {
    const isOver =
      this.#bytes > limits.daemonOutputBytesMax ||
      (this.#bySandbox.get(sandbox) ?? 0) > limits.sandboxOutputBytesMax;
    return isOver ? Math.min(wanted, limits.processOutputBytesLeast) : wanted;
  }
}
