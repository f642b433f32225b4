/**
 * Which key is an answer to a question that has just come up where somebody was typing for a hostile program. Pure.
 *
 * A key counts that is pressed alone: nothing has come for a moment before it, nothing comes for a moment behind it, and the question has
 * been there for longer than a hand needs to stop. So words that are typed on are none, and neither is what a terminal answers to what the
 * program asked it, whichever letters the program has put there and however the pieces come. Time in which nobody looked counts little:
 * what was typed in it is read afterwards, so a machine that is loaded, or has slept, makes no old key a new one.
 */

const shownMs = 1_000;
const aloneMs = 300;
/** Of time between two looks. */
const stepMsMax = 100;

/** Leaves at once. */
export const interrupt = '\u0003';
/** What leaves a question as it is. */
const leavers: readonly string[] = [interrupt, '\r', '\n', '\u001b', '\u0004', '\u001a', '\u001d', 'q'];

export const leaving = 'later';

export class AnswerKeys {
  #atMs: number;
  #clockMs = 0;
  #fromMs = shownMs;
  #key: string | undefined;

  constructor(nowMs: number) {
    this.#atMs = nowMs;
  }

  /** Whether a key that is pressed now may count. */
  get hears(): boolean {
    return this.#clockMs >= this.#fromMs;
  }

  /** What came in one piece. */
  hear(piece: Uint8Array): void {
    const text = Buffer.from(piece).toString('latin1');
    const isAlone = this.hears && this.#key === undefined && text.length === 1;
    this.#key = isAlone ? text : undefined;
    this.#fromMs = Math.max(this.#fromMs, this.#clockMs + aloneMs);
  }

  /** Asked often. @returns the key that counts: a letter as it is on the keyboard, or `leaving` */
  pressed(nowMs: number): string | undefined {
    this.#clockMs += Math.min(nowMs - this.#atMs, stepMsMax);
    this.#atMs = nowMs;
    if (this.#key === undefined || !this.hears) return undefined;
    const key = leavers.includes(this.#key) ? leaving : this.#key.toLowerCase();
    this.#key = undefined;
    return key;
  }
}
