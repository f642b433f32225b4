/**
 * Real values out of a server's answer, so that the answer's pace says nothing of them.
 *
 * What a newcomer would get wrong: a filter that holds back what may be the beginning of a value, and only that, tells
 * whoever chooses the bytes whether his guess is right, letter by letter. So from a host that may have the value every
 * text is held back alike, and from any other host nothing is: there, of a value that comes in two pieces, the
 * first is out before it can be known, and the rest is made unreadable.
 */
import type { Matcher } from './matcher.ts';
import { type ByteFilter, type OnMatch, Replacer } from './stream-filter.ts';

const empty = Buffer.alloc(0);

/** For a host that may have the values. What is held without being the beginning of one goes on with `settle`. */
export class EvenReplacer<T> implements ByteFilter {
  readonly #replacer: Replacer<T>;
  /** As long as the beginning of a value can be. */
  readonly #reach: number;
  #waiting: Buffer = empty;

  /** @param matcher for patterns of visible ASCII and spaces */
  constructor(matcher: Matcher<T>, onMatch: OnMatch<T>) {
    this.#replacer = new Replacer(matcher, onMatch);
    this.#reach = matcher.longest - 1;
  }

  push(piece: Buffer): Buffer {
    const ready = this.#replacer.push(piece);
    const text = this.#waiting.length === 0 ? ready : Buffer.concat([this.#waiting, ready]);
    const most = Math.min(this.#reach - this.#replacer.heldBytes, text.length);
    let kept = 0;
    // No value goes over a line's end, so lines and events leave when they come.
    while (kept < most && isVisible(text[text.length - 1 - kept] ?? 0)) kept += 1;
    this.#waiting = kept === 0 ? empty : Buffer.from(text.subarray(text.length - kept));
    return text.subarray(0, text.length - kept);
  }

  settle(recentBytes: number): Buffer {
    const waiting = this.#waiting;
    const kept = Math.min(waiting.length, Math.max(0, recentBytes - this.#replacer.heldBytes));
    this.#waiting = waiting.subarray(waiting.length - kept);
    return waiting.subarray(0, waiting.length - kept);
  }

  end(): Buffer {
    return Buffer.concat([this.settle(0), this.#replacer.end()]);
  }
}

/** For every other host: nothing waits. */
export class PassingReplacer<T> implements ByteFilter {
  readonly #matcher: Matcher<T>;
  readonly #onMatch: OnMatch<T>;
  /** Has gone on, and may be the beginning of a value. */
  #gone: Buffer = empty;

  constructor(matcher: Matcher<T>, onMatch: OnMatch<T>) {
    this.#matcher = matcher;
    this.#onMatch = onMatch;
  }

  push(piece: Buffer): Buffer {
    let written = this.#gone.length;
    const text = written === 0 ? piece : Buffer.concat([this.#gone, piece]);
    this.#gone = empty;
    const parts: Uint8Array[] = [];
    for (let from = 0; from < text.length; ) {
      // Behind what is undecided whole values are still found.
      const found = this.#matcher.find(text, from, this.#gone.length > 0);
      if (found === undefined) break;
      if (found.kind === 'partial') {
        this.#gone = Buffer.from(text.subarray(found.at));
        from = found.at + 1;
        continue;
      }
      from = found.at + found.length;
      if (from <= written) continue;
      if (found.at >= written) {
        parts.push(text.subarray(written, found.at), this.#onMatch(found.meaning, found.length));
      } else parts.push(Buffer.alloc(from - written, '.'));
      written = from;
    }
    const rest = text.subarray(written);
    return parts.length === 0 ? rest : Buffer.concat([...parts, rest]);
  }

  end(): Buffer {
    this.#gone = empty;
    return empty;
  }
}

/** One after the other. */
export function chained(first: ByteFilter, second: ByteFilter): ByteFilter {
  return {
    push: (piece) => second.push(first.push(piece)),
    settle: (recentBytes) =>
      Buffer.concat([
        second.push(first.settle?.(recentBytes) ?? empty),
        second.settle?.(recentBytes) ?? empty,
      ]),
    end: () => Buffer.concat([second.push(first.end()), second.end()]),
  };
}

function isVisible(byte: number): boolean {
  return byte >= 0x20 && byte <= 0x7e;
}
