/**
 * What this program computes for one run: it reads what the code sends, walks it before a tool gets it, writes what tools answer. Each value has its
 * bounds; a thousand of them have this one, and between two that took long everybody else has a turn.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CodemodeError } from '../errors.ts';

/** What other runs may be held up by at a time, beside what one value takes. */
const turnMsMax = 10;

export class HostWork {
  readonly #msMax: number;
  readonly #onSpent: () => void;
  #spentMs = 0;
  #turnMs = 0;
  #turn: Promise<void> | undefined;

  constructor(msMax: number, onSpent: () => void) {
    this.#msMax = msMax;
    this.#onSpent = onSpent;
  }

  /** Processor time, so that a busy machine ends nothing. @throws CodemodeError of kind `cpu` where it is spent, before or by this */
  measure<T>(work: () => T): T {
    this.#refuseIfSpent();
    const began = process.threadCpuUsage();
    let value: T;
    try {
      value = work();
    } finally {
      const { user, system } = process.threadCpuUsage(began);
      this.#spentMs += (user + system) / 1000;
      this.#turnMs += (user + system) / 1000;
    }
    this.#refuseIfSpent();
    return value;
  }

  #refuseIfSpent(): void {
    if (this.#spentMs < this.#msMax) return;
    this.#onSpent();
    throw new CodemodeError('cpu', 'the run has no processor time left in this program');
  }

  /** What takes long waits for `turn()` while this is so, and looks again: of several, one goes on in each turn. */
  get isTired(): boolean {
    return this.#turnMs >= turnMsMax;
  }

  turn(): Promise<void> {
    this.#turn ??= nextTurn().then(() => {
      this.#turn = undefined;
      this.#turnMs = 0;
    });
    return this.#turn;
  }
}
