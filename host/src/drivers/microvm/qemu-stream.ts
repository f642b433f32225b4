/**
 * QEMU's migration stream with the guest's memory in front of all else, as a file that `native/vmm/memory.h` fills memory from.
 *
 * QEMU would load it page by page, with a fault for each, and empty ones too: three in four of a fresh guest's. What is in front is
 * not in its stream any more, and it takes what it does not load for what it was given. What is not understood is refused: there is no
 * such template then.
 *
 *   file    = memory as `native/vmm/disk.h` has disks, without its empty pages | stream
 *   stream  = anything, section (start, "ram"), sections (part or end) of the same, anything
 *   section = u8 type | u32 id | [u8 length | name | u32 instance | u32 version] | record … | u8 footer | u32 id
 *           , or a command: u8 type | u16 which | u16 length | bytes
 *   record  = u64 address and flags | [u8 length | name of the block] | a page, a byte, a list of blocks, or nothing
 */
import { AppError } from '@squash/contract/errors';

/** `id=mem0` of the machine. */
const memoryBlock = 'mem0';
const pageBytes = 4096n;
/** Of pages beside each other, in one extent. */
const extentBytesMax = 1_048_576;
/** Of what is behind the memory: devices, and blocks of a few hundred KiB. */
const restBytesMax = 33_554_432;
const flags = { zero: 2n, sizes: 4n, page: 8n, end: 16n, sameBlock: 32n };
const known = Object.values(flags).reduce((all, flag) => all | flag);
const sections = { part: 2, end: 3, command: 8, footer: 0x7e };
const nameOfRam = Buffer.from('\u0003ram', 'latin1');
const headBytesMax = 65_536;
/** The longest thing that is read as a whole, and is not the head, is a command. */
const notReadBytesMax = 2 * headBytesMax;

export async function* memoryFirst(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const reader = new Reader();
  const rest = new Rest();
  for await (const piece of stream) {
    for (const kept of reader.take(piece)) rest.add(kept);
    yield* reader.memory.take();
  }
  if (!reader.isBehind) throw unknown('it ends in the middle');
  yield* reader.memory.end();
  yield rest.bytes();
}

/** One piece of memory, in however many it comes: who has taken the VMM over could send it byte by byte. */
class Rest {
  #held = Buffer.alloc(1_048_576);
  #used = 0;

  add(piece: Buffer): void {
    const end = this.#used + piece.length;
    if (end > restBytesMax) throw unknown('too much is behind the memory');
    if (end > this.#held.length)
      this.#held = Buffer.concat([this.#held], Math.max(end, 2 * this.#held.length));
    piece.copy(this.#held, this.#used);
    this.#used = end;
  }

  bytes(): Buffer {
    return this.#held.subarray(0, this.#used);
  }
}

/** Its pages as they come, in the form of `native/vmm/disk.h`. */
class Memory {
  #bytes: bigint | undefined;
  readonly #done: Buffer[] = [];
  #run: Buffer[] = [];
  /** Where the run begins and ends. */
  #at = 0n;
  #end = 0n;

  size(bytes: bigint): void {
    if (this.#bytes !== undefined) throw unknown('it has two sizes of the memory');
    this.#bytes = bytes;
    this.#done.push(numbers(bytes));
  }

  page(address: bigint, page: Buffer): void {
    if (this.#bytes === undefined || address < this.#end || address + pageBytes > this.#bytes)
      throw unknown('a page is not where one can be');
    if (address !== this.#end || this.#end - this.#at >= extentBytesMax) {
      this.#close();
      this.#at = address;
    }
    // The piece that it lies in goes soon.
    this.#run.push(Buffer.from(page));
    this.#end = address + pageBytes;
  }

  /** What is complete. */
  take(): readonly Buffer[] {
    return this.#done.splice(0);
  }

  end(): readonly Buffer[] {
    if (this.#bytes === undefined) throw unknown('it has no memory');
    this.#close();
    this.#done.push(numbers(this.#bytes, 0n));
    return this.take();
  }

  #close(): void {
    if (this.#run.length > 0) this.#done.push(numbers(this.#at, this.#end - this.#at), ...this.#run);
    this.#run = [];
  }
}

function numbers(...values: readonly bigint[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [at, value] of values.entries()) bytes.writeBigUInt64LE(value, 8 * at);
  return bytes;
}

class Reader {
  readonly memory = new Memory();
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

  /** What stays in the stream. */
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
    if (this.#rest.length > notReadBytesMax) throw unknown('a record has no end');
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
    if (flag === flags.sizes) return this.#blockList(bytes, word - flag);
    const isSame = (flag & flags.sameBlock) !== 0n;
    const name = isSame ? { text: this.#block, end: 8 } : nameAt(bytes, 8);
    const isZero = (flag & flags.zero) !== 0n;
    const length = name === undefined ? Infinity : name.end + (isZero ? 1 : Number(pageBytes));
    if (name === undefined || bytes.length < length) return undefined;
    this.#block = name.text;
    if (name.text === memoryBlock) {
      if (!isZero) this.memory.page(word - flag, bytes.subarray(name.end, length));
      else if (bytes[name.end] !== 0) throw unknown('a page of one byte that is not 0');
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

  /** `total` bytes in blocks, of which each has a name and a size. */
  #blockList(bytes: Buffer, total: bigint): number | undefined {
    let end = 8;
    let memoryBytes: bigint | undefined;
    for (let left = total; left > 0n; ) {
      const name = nameAt(bytes, end);
      if (name === undefined || bytes.length < name.end + 8) return undefined;
      const size = bytes.readBigUInt64BE(name.end);
      if (name.text === memoryBlock) memoryBytes = size;
      left -= size;
      end = name.end + 8;
    }
    if (memoryBytes !== undefined) this.memory.size(memoryBytes);
    return end;
  }
}

function nameAt(bytes: Buffer, at: number): { readonly text: string; readonly end: number } | undefined {
  const length = bytes[at];
  if (length === undefined || bytes.length < at + 1 + length) return undefined;
  return { text: bytes.toString('latin1', at + 1, at + 1 + length), end: at + 1 + length };
}

function unknown(why: string): AppError {
  return new AppError('guest_failed', `QEMU's memory of the guest can't be read: ${why}`);
}
