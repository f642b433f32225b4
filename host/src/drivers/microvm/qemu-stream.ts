/**
 * QEMU's migration stream without the empty pages of the guest's memory.
 *
 * To load one of them QEMU reads the page that is there, which takes memory for it: three in four of a fresh guest's. Nothing is lost,
 * for memory is empty before it is loaded. What is not understood is refused: there is no such template then.
 *
 *   stream  = anything, section (start, "ram"), sections (part or end) of the same, anything
 *   section = u8 type | u32 id | [u8 length | name | u32 instance | u32 version] | record … | u8 footer | u32 id
 *           , or a command: u8 type | u16 which | u16 length | bytes
 *   record  = u64 address and flags | [u8 length | name of the block] | a page, a byte, a list of blocks, or nothing
 */
import { AppError } from '@squash/contract/errors';

/** `memory-backend-memfd,id=mem0` of the machine. Others have a content before they are loaded. */
const memoryBlock = 'mem0';
const pageBytes = 4096n;
const flags = { zero: 2n, sizes: 4n, page: 8n, end: 16n, sameBlock: 32n };
const known = Object.values(flags).reduce((all, flag) => all | flag);
const sections = { part: 2, end: 3, command: 8, footer: 0x7e };
const nameOfRam = Buffer.from('\u0003ram', 'latin1');
const headBytesMax = 65_536;

export async function* withoutEmptyPages(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const reader = new Reader();
  for await (const piece of stream) yield* reader.take(piece);
  if (!reader.isBehind) throw unknown('it ends in the middle');
}

class Reader {
  /** The guest's memory has been read: all that comes is of devices. */
  isBehind = false;
  #rest: Buffer = Buffer.alloc(0);
  /** Of the section of the memory; undefined before it. */
  #id: number | undefined;
  #isInside = false;
  #isLast = false;
  /** Which block the stream is in, and the stream that is kept. */
  #block = '';
  #keptBlock = '';

  take(piece: Buffer): readonly Buffer[] {
    if (this.isBehind) return [piece];
    const bytes = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    const kept: Buffer[] = [];
    let at = 0;
    let from = 0;
    for (let length: number | undefined; !this.isBehind; at += length) {
      const rest = bytes.subarray(at);
      length =
        this.#id === undefined ? this.#start(rest) : this.#isInside ? this.#record(rest) : this.#edge(rest);
      if (length === undefined) break;
      const instead = this.#instead;
      this.#instead = undefined;
      if (instead === undefined) continue;
      kept.push(bytes.subarray(from, at), instead);
      from = at + length;
    }
    const end = this.isBehind ? bytes.length : at;
    kept.push(bytes.subarray(from, end));
    this.#rest = Buffer.from(bytes.subarray(end));
    return kept;
  }

  /** What is kept in the place of what was read last, where that is something else. */
  #instead: Buffer | undefined;

  /** All of these return how many bytes they understood, undefined where they need more. */
  #start(bytes: Buffer): number | undefined {
    const found = bytes.indexOf(nameOfRam);
    if (found < 0 && bytes.length > headBytesMax) throw unknown('it has no memory');
    if (found < 5) return undefined;
    const end = found + nameOfRam.length + 8;
    if (bytes.length < end) return undefined;
    this.#id = bytes.readUInt32BE(found - 4);
    this.#isInside = true;
    return end;
  }

  #edge(bytes: Buffer): number | undefined {
    if (bytes.length < 5) return undefined;
    const type = bytes[0];
    if (type === sections.command) {
      const end = 5 + bytes.readUInt16BE(3);
      return bytes.length < end ? undefined : end;
    }
    const isOurs = bytes.readUInt32BE(1) === this.#id;
    if (isOurs && type === sections.footer) this.isBehind = this.#isLast;
    else if (isOurs && (type === sections.part || type === sections.end)) {
      this.#isLast = type === sections.end;
      this.#isInside = true;
    } else throw unknown('another section is between those of the memory');
    return 5;
  }

  #record(bytes: Buffer): number | undefined {
    if (bytes.length < 8) return undefined;
    const word = bytes.readBigUInt64BE(0);
    const flag = word % pageBytes;
    if ((flag & ~known) !== 0n) throw unknown('a record of another kind');
    if (flag === flags.end) {
      this.#isInside = false;
      return 8;
    }
    if (flag === flags.sizes) return blockList(bytes, word - flag);
    const isSame = (flag & flags.sameBlock) !== 0n;
    const name = isSame ? { text: this.#block, end: 8 } : nameAt(bytes, 8);
    const isZero = (flag & flags.zero) !== 0n;
    const length = name === undefined ? Infinity : name.end + (isZero ? 1 : Number(pageBytes));
    if (name === undefined || bytes.length < length) return undefined;
    this.#block = name.text;
    if (isZero && name.text === memoryBlock) {
      this.#instead = Buffer.alloc(0);
      return length;
    }
    // It is said again where the record that said it is gone.
    if (isSame && this.#keptBlock !== name.text) {
      const head = Buffer.alloc(8);
      head.writeBigUInt64BE(word - flags.sameBlock);
      this.#instead = Buffer.concat([
        head,
        Buffer.from([name.text.length]),
        Buffer.from(name.text, 'latin1'),
        bytes.subarray(8, length),
      ]);
    }
    this.#keptBlock = name.text;
    return length;
  }
}

/** `total` bytes in blocks, of which each has a name and a size. */
function blockList(bytes: Buffer, total: bigint): number | undefined {
  let end = 8;
  for (let left = total; left > 0n; ) {
    const name = nameAt(bytes, end);
    if (name === undefined || bytes.length < name.end + 8) return undefined;
    left -= bytes.readBigUInt64BE(name.end);
    end = name.end + 8;
  }
  return end;
}

function nameAt(bytes: Buffer, at: number): { readonly text: string; readonly end: number } | undefined {
  const length = bytes[at];
  if (length === undefined || bytes.length < at + 1 + length) return undefined;
  return { text: bytes.toString('latin1', at + 1, at + 1 + length), end: at + 1 + length };
}

function unknown(why: string): AppError {
  return new AppError('guest_failed', `QEMU's memory of the guest can't be read: ${why}`);
}
