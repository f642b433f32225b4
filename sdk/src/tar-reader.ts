/**
 * A tar that a sandbox sends, as entries. A sandbox's root may have replaced its PID 1, so nothing in it is believed: names
 * come out relative and without "..", and what is neither file, directory nor symlink is an error.
 */
import { SquashError } from './errors.ts';

export interface TarEntry {
  readonly type: 'file' | 'directory' | 'symlink';
  /** Relative, its parts; at least one. */
  readonly parts: readonly string[];
  readonly mode: number;
  readonly mtimeS: number;
  readonly target: string;
  /** To be read to its end before the next entry. */
  readonly content: AsyncIterable<Buffer>;
}

const blockBytes = 512;
/** A header of long names has two of them. */
const extensionBytesMax = 65_536;
/** As many as a sandbox hands out: an archive without end would fill the memory of whoever notes its names. */
const entriesMax = 2_000_000;
/** No path of the system's is longer; what lies deeper is hard to remove again. */
const pathCharsMax = 4_096;

/** @param encoding of names and targets: latin1 keeps the bytes of those that are not UTF-8 */
export async function* readTar(
  body: AsyncIterable<Uint8Array>,
  encoding: 'utf8' | 'latin1' = 'utf8',
): AsyncGenerator<TarEntry, void, void> {
  const source = new Blocks(body);
  let extended = new Map<string, string>();
  for (let entries = 0; ; entries += 1) {
    if (entries > 2 * entriesMax) throw invalid(`what came has more than ${entriesMax} entries`);
    const header = await source.exactly(blockBytes);
    if (header.every((byte) => byte === 0)) break;
    checkSum(header);
    const type = header.toString('latin1', 156, 157);
    const size = Number(extended.get('size') ?? octal(header, 124, 12));
    if (!Number.isSafeInteger(size) || size < 0) throw damaged();
    if (type === 'x') {
      if (size > extensionBytesMax) throw damaged();
      extended = readRecords(await source.exactly(size), encoding);
      await source.exactly(padding(size));
      continue;
    }
    // What goes over a network and ends early would else look like a directory with less in it.
    const content = source.upTo(size);
    yield entryOf(type, header, { extended, content, encoding });
    for await (const _ of content) continue;
    await source.exactly(padding(size));
    extended = new Map();
  }
}

function entryOf(
  type: string,
  header: Buffer,
  {
    extended,
    content,
    encoding,
  }: {
    readonly extended: ReadonlyMap<string, string>;
    readonly content: AsyncIterable<Buffer>;
    readonly encoding: BufferEncoding;
  },
): TarEntry {
  const known = { '0': 'file', '5': 'directory', '2': 'symlink' } as const;
  const kind = known[type as keyof typeof known];
  const path = extended.get('path') ?? field(header, 0, 100).toString(encoding);
  if (kind === undefined) throw invalid(`"${path}" is no file, directory or symlink`);
  if (path.length > pathCharsMax) throw invalid(`"${path.slice(0, 100)}…" is too long a path`);
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.length === 0 || parts.includes('..') || path.startsWith('/') || path.includes('\0')) {
    throw invalid(`"${path}" leads out of the directory`);
  }
  return {
    type: kind,
    parts,
    mode: octal(header, 100, 8) & 0o777,
    mtimeS: octal(header, 136, 12),
    target: extended.get('linkpath') ?? field(header, 157, 100).toString(encoding),
    content,
  };
}

function field(header: Buffer, at: number, length: number): Buffer {
  const end = header.subarray(at, at + length).indexOf(0);
  return header.subarray(at, at + (end < 0 ? length : end));
}

function octal(header: Buffer, at: number, length: number): number {
  const digits = field(header, at, length).toString('latin1').trim();
  if (!/^[0-7]*$/.test(digits)) throw damaged();
  return Number.parseInt(digits || '0', 8);
}

function checkSum(header: Buffer): void {
  const wanted = octal(header, 148, 8);
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0);
  if (sum !== wanted) throw damaged();
}

/** `LENGTH KEY=VALUE\n`, whose length counts itself. */
function readRecords(bytes: Buffer, encoding: BufferEncoding): Map<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < bytes.length; ) {
    const [, length = '', key = ''] =
      /^(\d{1,6}) ([^=\n]+)=/.exec(bytes.toString('latin1', at, at + 64)) ?? [];
    const end = at + Number(length);
    if (key === '' || end <= at || end > bytes.length || bytes[end - 1] !== 0x0a) throw damaged();
    records.set(key, bytes.toString(encoding, at + length.length + key.length + 2, end - 1));
    at = end;
  }
  return records;
}

const padding = (size: number): number => (blockBytes - (size % blockBytes)) % blockBytes;

function damaged(): SquashError {
  return invalid('what came is no whole tar');
}

function invalid(message: string): SquashError {
  return new SquashError({ code: 'archive_invalid', message });
}

/** The body in pieces of any length. */
class Blocks {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#chunks = body[Symbol.asyncIterator]();
  }

  /** At most `extensionBytesMax`. */
  async exactly(length: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const part of this.upTo(length)) parts.push(part);
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  }

  async *upTo(length: number): AsyncGenerator<Buffer, void, void> {
    for (let left = length; left > 0; ) {
      if (this.#rest.length === 0) {
        const next = await this.#chunks.next();
        if (next.done === true) throw damaged();
        // What is read of a header needs Node's methods; content goes through as it is.
        this.#rest = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
      }
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }
}
