/**
 * What the bridge of a context writes, line by line, each with its place in the process's output.
 *
 * The bridge runs as the sandbox's user, whose cells can write there too: a line that is too long, holds too many values or is no
 * message of the protocol is passed over, as is the rest of one whose beginning was not read.
 */
import { type BridgeLine, bridgeLineSchema } from '@squash/contract/context';
import { limits } from '@squash/contract/limits';
import type { OutputEvent } from './process-output.ts';

export type PlacedLine =
  /** From the position `start` to before `end`. */
  | { readonly type: 'line'; readonly start: number; readonly end: number; readonly line: BridgeLine }
  | { readonly type: 'gap'; readonly seq: number; readonly bytes: number };

export async function* bridgeLines(
  output: AsyncIterable<OutputEvent>,
  lineBytesMax: number,
): AsyncGenerator<PlacedLine, void, void> {
  let partial = new Partial();
  for await (const event of output) {
    if (event.type === 'gap') {
      partial = new Partial();
      yield event;
      continue;
    }
    // What is on standard error is nobody's word.
    if (event.stream === 'stderr') continue;
    const { data } = event;
    const before = event.seq - data.length;
    for (let from = 0; from < data.length; ) {
      const newline = data.indexOf(0x0a, from);
      const end = newline < 0 ? data.length : newline;
      partial.add(data.subarray(from, end), before + from, lineBytesMax);
      from = end + 1;
      if (newline < 0) break;
      const line = partial.message();
      if (line !== undefined) yield { type: 'line', start: partial.start, end: before + from, line };
      partial = new Partial();
    }
  }
}

/** A line that has not ended. */
class Partial {
  #pieces: Buffer[] = [];
  #bytes = 0;
  #isTooLong = false;
  start = 0;

  add(piece: Buffer, position: number, bytesMax: number): void {
    if (this.#bytes === 0) this.start = position;
    this.#bytes += piece.length;
    if (this.#isTooLong || this.#bytes > bytesMax) {
      this.#isTooLong = true;
      this.#pieces = [];
    } else if (piece.length > 0) this.#pieces.push(piece);
  }

  message(): BridgeLine | undefined {
    if (this.#isTooLong || this.#bytes === 0) return undefined;
    const bytes = Buffer.concat(this.#pieces);
    if (hasTooMany(bytes, limits.contextLineValuesMax)) return undefined;
    try {
      return bridgeLineSchema.safeParse(JSON.parse(bytes.toString('utf8'))).data;
    } catch {
      // No JSON: not the bridge's word.
      return undefined;
    }
  }
}

/** Whether JSON would have more values than that. Eight megabytes of empty lists take seconds and 100 MB to parse, of text nothing. */
function hasTooMany(bytes: Buffer, valuesMax: number): boolean {
  let [count, isText] = [0, false];
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === 0x22) isText = !isText;
    else if (isText) at += byte === 0x5c ? 1 : 0;
    // , : [ {
    else if (byte === 0x2c || byte === 0x3a || byte === 0x5b || byte === 0x7b) count += 1;
    if (count > valuesMax) return true;
  }
  return false;
}
