/**
 * Ends a context whose bridge does not end its cells: the bridge is of the cells' own user, and a cell may have stopped it. Whoever waits
 * for a cell is so told within the cell's time.
 */
import { limits } from '@squash/contract/limits';

/** What a context is doing when a cell is asked for. */
type Before = 'idle' | 'starting' | 'busy';

export class CellWatch implements Disposable {
  readonly #end: () => void;
  readonly #ms: number;
  #timer: NodeJS.Timeout;

  /**
   * @param timeoutMs of the cell
   * @param end is called again where it has not ended the context, which stands still
   */
  constructor(timeoutMs: number, before: Before, end: () => void) {
    this.#end = end;
    this.#ms = timeoutMs + limits.contextOverdueMs;
    const waits = { idle: 0, starting: limits.contextStartMs, busy: limits.execTimeoutSMax * 1_000 };
    this.#timer = this.#after(this.#ms + waits[before]);
  }

  /** Those before it are over. */
  begins(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#after(this.#ms);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #after(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      this.#timer = this.#after(this.#ms);
      this.#end();
    }, ms).unref();
  }
}
