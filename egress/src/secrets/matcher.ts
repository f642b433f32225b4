/**
 * Finds many byte patterns at once in a stream of pieces: every placeholder of a sandbox on the way out, every form of
 * its secrets' values on the way back.
 *
 * A window as long as the shortest pattern slides over the text; its last two bytes tell how far it can jump (Wu and
 * Manber). Only where it can not jump are the patterns walked, and all of them together as one sorted list, so that a
 * hundred keys with one common beginning cost what one costs. What a newcomer would get wrong: a match may begin in one
 * piece and end in the next, and the answer `partial` says from where on nothing is decided yet.
 */
import { bug } from '@squash/base/bug';

export interface Pattern<T> {
  readonly bytes: Buffer;
  readonly meaning: T;
}

export type Found<T> =
  | { readonly kind: 'match'; readonly at: number; readonly length: number; readonly meaning: T }
  /** From `at` on the text may be the beginning of a match. */
  | { readonly kind: 'partial'; readonly at: number };

/** A longer window jumps further, but 24 bytes are past the point where reading memory is what costs. */
const windowMax = 24;
const isNone = -1;
const isPartial = -2;

export class Matcher<T> {
  /** Bytes of the longest pattern. */
  readonly longest: number;
  readonly #patterns: readonly Pattern<T>[];
  /** Patterns that begin with byte b are those from `#first[b]` to below `#first[b + 1]`. */
  readonly #first = new Uint32Array(257);
  readonly #shift = new Uint8Array(65_536);
  readonly #window: number;

  /** Of equal patterns the first counts. @param patterns at least two bytes each */
  constructor(patterns: readonly Pattern<T>[]) {
    const sorted = patterns.toSorted((one, two) => Buffer.compare(one.bytes, two.bytes));
    this.#patterns = sorted.filter((pattern, at) => sorted[at - 1]?.bytes.equals(pattern.bytes) !== true);
    this.#window = this.#patterns.reduce((least, { bytes }) => Math.min(least, bytes.length), windowMax);
    this.longest = this.#patterns.reduce((most, { bytes }) => Math.max(most, bytes.length), 0);
    bug(this.#window >= 2, 'a pattern has two bytes at least');
    this.#shift.fill(this.#window - 1);
    for (const { bytes } of this.#patterns) this.#learn(bytes);
    let at = 0;
    for (let byte = 0; byte <= 256; byte += 1) {
      while (at < this.#patterns.length && this.#byte(at, 0) < byte) at += 1;
      this.#first[byte] = at;
    }
  }

  get isEmpty(): boolean {
    return this.#patterns.length === 0;
  }

  /**
   * The first match at or behind `from`, the longest where several begin there. With `isFinal` nothing comes after
   * `text`, and no answer is `partial`.
   */
  find(text: Uint8Array, from: number, isFinal: boolean): Found<T> | undefined {
    if (this.isEmpty) return undefined;
    const window = this.#window;
    const shift = this.#shift;
    const size = text.length;
    let end = from + window - 1;
    while (end < size) {
      const jump = shift[((text[end - 1] ?? 0) << 8) | (text[end] ?? 0)] ?? 0;
      if (jump > 0) {
        end += jump;
        continue;
      }
      const found = this.#at(text, end - window + 1, isFinal);
      if (found !== undefined) return found;
      end += 1;
    }
    if (isFinal) return undefined;
    // Less than a window is left: it can not be a match yet, but the beginning of one.
    for (let at = Math.max(from, end - window + 1); at < size; at += 1) {
      if (this.#walk(text, at, false) === isPartial) return { kind: 'partial', at };
    }
    return undefined;
  }

  #learn(bytes: Buffer): void {
    for (let end = 1; end < this.#window; end += 1) {
      const block = ((bytes[end - 1] ?? 0) << 8) | (bytes[end] ?? 0);
      this.#shift[block] = Math.min(this.#shift[block] ?? 0, this.#window - 1 - end);
    }
  }

  #at(text: Uint8Array, at: number, isFinal: boolean): Found<T> | undefined {
    const index = this.#walk(text, at, isFinal);
    if (index === isNone) return undefined;
    if (index === isPartial) return { kind: 'partial', at };
    const pattern = this.#patterns[index];
    bug(pattern !== undefined, 'the walk ends at a pattern');
    return { kind: 'match', at, length: pattern.bytes.length, meaning: pattern.meaning };
  }

  /** Narrows the sorted patterns byte by byte to those that the text goes on as. The work is the length of the match. */
  #walk(text: Uint8Array, from: number, isFinal: boolean): number {
    const head = text[from] ?? 0;
    let low = this.#first[head] ?? 0;
    let high = this.#first[head + 1] ?? 0;
    let best = isNone;
    for (let depth = 1; low < high; depth += 1) {
      // The shortest of those that share a beginning is sorted before them.
      if (this.#patterns[low]?.bytes.length === depth) {
        best = low;
        low += 1;
        if (low === high) return best;
      }
      const at = from + depth;
      if (at >= text.length) return isFinal ? best : isPartial;
      const byte = text[at] ?? 0;
      low = this.#bound(low, high, { depth, byte });
      high = this.#bound(low, high, { depth, byte: byte + 1 });
    }
    return best;
  }

  /** The first in the range whose byte at `depth` is not below `byte`. */
  #bound(low: number, high: number, { depth, byte }: { depth: number; byte: number }): number {
    let least = low;
    let most = high;
    while (least < most) {
      const middle = (least + most) >> 1;
      if (this.#byte(middle, depth) < byte) least = middle + 1;
      else most = middle;
    }
    return least;
  }

  #byte(index: number, depth: number): number {
    return this.#patterns[index]?.bytes[depth] ?? 0;
  }
}
