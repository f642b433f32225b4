/**
 * Which key is an answer to a question that has just come up where somebody was typing for a hostile program. Pure.
 *
 * A key counts that is pressed alone: nothing has come for a moment before it, nothing comes for a moment behind it, and the question has
 * been there for longer than a hand needs to stop. So words that are typed on are none, and neither is what a terminal answers to what the
 * program asked it, whichever letters the program has put there and however the pieces come.
 */

const shownMs = 1_000;
const aloneMs = 300;

/** What leaves a question as it is. */
const leavers: readonly string[] = ['\r', '\n', '\u001b', '\u0004', '\u001a', '\u001d', 'q'];
const interrupt = '\u0003';

export const leaving = 'later';

export class AnswerKeys {
  #fromMs: number;
  #key: string | undefined;

  constructor(nowMs: number) {
    this.#fromMs = nowMs + shownMs;
  }

  /** Whether a key that is pressed now may count. */
  hears(nowMs: number): boolean {
    return nowMs >= this.#fromMs;
  }

  /** What came in one piece. */
  hear(piece: Uint8Array, nowMs: number): void {
    const text = Buffer.from(piece).toString('latin1');
    const isAlone = this.hears(nowMs) && this.#key === undefined && text.length === 1;
    this.#key = text === interrupt || isAlone ? text : undefined;
    this.#fromMs = Math.max(this.#fromMs, nowMs + aloneMs);
  }

  /** The key that counts: a letter as it is on the keyboard, or `leaving`. */
  pressed(nowMs: number): string | undefined {
    if (this.#key === interrupt) return leaving;
    if (this.#key === undefined || !this.hears(nowMs)) return undefined;
    const key = leavers.includes(this.#key) ? leaving : this.#key.toLowerCase();
    this.#key = undefined;
    return key;
  }
}
