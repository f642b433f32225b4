/**
 * A command's output as messages: whole lines where they come in time, never half a character, and no more than the bound. Pure: it
 * says what to tell and up to which position that is everything, so that the next daemon goes on at exactly the next byte.
 */
import { groupLimits } from '@squash/contract/group-limits';
import { wholeCharacters } from '@squash/base/utf8';
import type { Piece } from './ports.ts';

export interface Told {
  readonly text: string;
  readonly bytes: number;
}

interface Segment {
  /** Position of its first byte. */
  readonly at: number;
  readonly data: Buffer;
}

const newline = 0x0a;

export class OutputCutter {
  #segments: readonly Segment[] = [];
  #position: number;
  #room: number;
  #isTruncated: boolean;
  #hasMissed = false;

  constructor(start: {
    readonly position: number;
    readonly told: number;
    readonly bytesMax: number;
    readonly isTruncated: boolean;
  }) {
    this.#position = start.position;
    this.#room = Math.max(0, start.bytesMax - start.told);
    this.#isTruncated = start.isTruncated;
  }

  /** Everything before it is told. */
  get position(): number {
    return this.#segments[0]?.at ?? this.#position;
  }

  get isTruncated(): boolean {
    return this.#isTruncated || this.#hasMissed;
  }

  /** What is to be told now. */
  take({ seq, stream, data }: Piece): readonly Told[] {
    if (stream === undefined) this.#hasMissed = true;
    if (stream === 'stdout' && !this.#isTruncated) {
      this.#segments = [...this.#segments, { at: seq - data.length, data }];
    }
    this.#position = seq;
    const pending = this.#pending();
    if (pending.length >= this.#room && pending.length > 0) return this.#last(pending);
    const line = pending.lastIndexOf(newline) + 1;
    if (line > 0) return this.#tell(line);
    if (pending.length < groupLimits.messageBytesMax) return [];
    return this.#tell(whole(pending, pending.length));
  }

  /** The command has ended. */
  rest(): readonly Told[] {
    const pending = this.#pending();
    return pending.length === 0 ? [] : this.#tell(pending.length);
  }

  #pending(): Buffer {
    return Buffer.concat(this.#segments.map(({ data }) => data));
  }

  #last(pending: Buffer): readonly Told[] {
    if (pending.length === this.#room) return this.#tell(pending.length);
    const told = this.#tell(whole(pending, this.#room));
    this.#isTruncated = true;
    this.#segments = [];
    return told;
  }

  /** The first bytes, in messages of their size. */
  #tell(count: number): readonly Told[] {
    const bytes = this.#pending().subarray(0, count);
    this.#drop(count);
    this.#room -= count;
    const told: Told[] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = Math.min(bytes.length, at + groupLimits.messageBytesMax);
      const cut = end === bytes.length ? end : at + whole(bytes.subarray(at), end - at);
      const piece = bytes.subarray(at, cut);
      told.push({ text: piece.toString('utf8'), bytes: piece.length });
      at = cut;
    }
    return told;
  }

  #drop(count: number): void {
    let left = count;
    this.#segments = this.#segments.flatMap(({ at, data }) => {
      const gone = Math.min(left, data.length);
      left -= gone;
      return gone === data.length ? [] : [{ at: at + gone, data: data.subarray(gone) }];
    });
  }
}

/** At most so many of the first bytes, without half a character at the end; where that leaves none they are no UTF-8. */
function whole(bytes: Buffer, count: number): number {
  const cut = wholeCharacters(bytes.subarray(0, count));
  return cut === 0 ? count : cut;
}
