/**
 * Real values out of a server's answer, so that the answer's pace says nothing of them.
 *
 * What a newcomer would get wrong: a filter that holds back what may be the beginning of a value, and only that, or for
 * longer than other text, tells whoever chooses the bytes whether his guess is right, letter by letter. So what may go
 * on and when hangs on no byte's meaning before a value is whole: from a host that may have the value the end of every
 * text waits alike, and then goes; from any other host nothing waits. Of a value whose beginning has gone before it could
 * be known, the rest is made unreadable.
 */
import type { Found, Matcher } from './matcher.ts';
import type { ByteFilter } from '../flow/pump.ts';
import type { OnMatch } from './stream-filter.ts';

const empty = Buffer.alloc(0);

export class AnswerFilter<T> implements ByteFilter {
  readonly #matcher: Matcher<T>;
  readonly #onMatch: OnMatch<T>;
  /** Of visible text the last so many bytes wait. */
  readonly #reach: number;
  /** What waits, and before it what has gone and may be the beginning of a value. */
  #text: Buffer = empty;
  #goneBytes = 0;

  /**
   * @param matcher for patterns of visible ASCII and spaces
   * @param waits so that a value is known before any of it goes, as long as no pause cuts it; `settle` ends the waiting
   */
  constructor(matcher: Matcher<T>, onMatch: OnMatch<T>, { waits }: { readonly waits: boolean }) {
    this.#matcher = matcher;
    this.#onMatch = onMatch;
    this.#reach = waits ? matcher.longest - 1 : 0;
  }

  push(piece: Buffer): Buffer {
    const text = this.#text.length === 0 ? piece : Buffer.concat([this.#text, piece]);
    this.#text = text;
    const most = Math.min(this.#reach, text.length - this.#goneBytes);
    let kept = 0;
    // No value goes over a line's end, so lines and events leave when they come.
    while (kept < most && isVisible(text[text.length - 1 - kept] ?? 0)) kept += 1;
    return this.#release(text.length - kept);
  }

  settle(recentBytes: number): Buffer {
    return this.#release(Math.max(this.#goneBytes, this.#text.length - recentBytes));
  }

  end(): Buffer {
    const rest = this.#release(this.#text.length);
    this.#text = empty;
    this.#goneBytes = 0;
    return rest;
  }

  /** What stands before `until`, without values. One that stands across it waits whole. */
  #release(until: number): Buffer {
    const text = this.#text;
    const parts: Uint8Array[] = [];
    let written = this.#goneBytes;
    let end = until;
    /** Where the first stands that may go on as a value. */
    let open = text.length;
    for (let from = 0; from < text.length; ) {
      const found = this.#find(from, open);
      if (found === undefined) break;
      if (found.kind === 'partial') {
        // Once more from there: what is whole in it is a value, whether it goes on as a longer one or not.
        open = from = found.at;
        continue;
      }
      from = found.at + found.length;
      if (from <= written) continue;
      if (found.at >= written && from > end) {
        end = Math.min(end, found.at);
        break;
      }
      if (found.at < written) parts.push(Buffer.alloc(from - written, '.'));
      else parts.push(text.subarray(written, found.at), this.#onMatch(found.meaning, found.length));
      written = from;
    }
    const rest = text.subarray(written, Math.max(written, end));
    written += rest.length;
    const from = Math.min(open, written);
    // Copied: a few bytes must not keep the whole piece in memory.
    this.#text = from === text.length ? empty : Buffer.from(text.subarray(from));
    this.#goneBytes = written - from;
    return parts.length === 0 ? rest : Buffer.concat([...parts, rest]);
  }

  #find(from: number, open: number): Found<T> | undefined {
    return this.#matcher.find(this.#text, from, open < this.#text.length);
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
