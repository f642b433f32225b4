/**
 * A matcher applied to a stream: `replace` gives the stream with every match exchanged, `watch` only looks.
 *
 * What a newcomer would get wrong: `replace` holds back exactly what may be the beginning of a match and nothing else,
 * so a server-sent event is not kept waiting for the next one. `watch` holds back nothing at all: a match that
 * is seen is refused before the piece that completes it goes on, so that never a whole one has left.
 */
import type { ByteFilter } from '../flow/pump.ts';
import type { Matcher } from './matcher.ts';

/** What becomes of a match of `length` bytes: these stand in its place. May throw, which ends the stream. */
export type OnMatch<T> = (meaning: T, length: number) => Uint8Array;

const empty = Buffer.alloc(0);

export class Replacer<T> implements ByteFilter {
  readonly #matcher: Matcher<T>;
  readonly #onMatch: OnMatch<T>;
  #held: Buffer = empty;

  constructor(matcher: Matcher<T>, onMatch: OnMatch<T>) {
    this.#matcher = matcher;
    this.#onMatch = onMatch;
  }

  push(piece: Buffer): Buffer {
    return this.#run(piece, false);
  }

  end(): Buffer {
    return this.#run(empty, true);
  }

  #run(piece: Buffer, isFinal: boolean): Buffer {
    const text = this.#held.length === 0 ? piece : Buffer.concat([this.#held, piece]);
    this.#held = empty;
    const parts: Uint8Array[] = [];
    let from = 0;
    let until = text.length;
    while (from < until) {
      const found = this.#matcher.find(text, from, isFinal);
      if (found === undefined) break;
      if (found.kind === 'partial') {
        until = found.at;
        // Copied: a few bytes must not keep the whole piece in memory.
        this.#held = Buffer.from(text.subarray(until));
        break;
      }
      parts.push(text.subarray(from, found.at), this.#onMatch(found.meaning, found.length));
      from = found.at + found.length;
    }
    const rest = text.subarray(from, until);
    return parts.length === 0 ? rest : Buffer.concat([...parts, rest]);
  }
}

export class Watcher<T> implements ByteFilter {
  readonly #matcher: Matcher<T>;
  readonly #onMatch: (meaning: T) => void;
  #seen: Buffer = empty;

  constructor(matcher: Matcher<T>, onMatch: (meaning: T) => void) {
    this.#matcher = matcher;
    this.#onMatch = onMatch;
  }

  push(piece: Buffer): Buffer {
    this.#look(piece, false);
    return piece;
  }

  end(): Buffer {
    this.#look(empty, true);
    return empty;
  }

  #look(piece: Buffer, isFinal: boolean): void {
    const text = this.#seen.length === 0 ? piece : Buffer.concat([this.#seen, piece]);
    this.#seen = empty;
    for (let from = 0; from < text.length; ) {
      const found = this.#matcher.find(text, from, isFinal);
      if (found === undefined) return;
      if (found.kind === 'partial') {
        this.#seen = Buffer.from(text.subarray(found.at));
        return;
      }
      this.#onMatch(found.meaning);
      from = found.at + found.length;
    }
  }
}
