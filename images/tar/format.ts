/**
 * Reads and writes tar as GNU tar and mmdebstrap write it: ustar headers, pax and GNU extensions before them.
 *
 * Names are kept as bytes in Latin-1 strings: a package may ship a name that is no UTF-8, and the layer has to
 * hold it unchanged. A copied entry is copied with its header blocks as they are, so that nothing this file
 * does not know (extended attributes, sparse maps) is lost.
 */
import { readSync, writeSync } from 'node:fs';
import { Failure } from '@squash/base/failure';

const block = 512;
/** A header that announces more extension bytes than this is no archive of ours. */
const extensionBytesMax = 1 << 20;

export type TarType = 'file' | 'link' | 'symlink' | 'character' | 'block' | 'directory' | 'fifo';

const types: Readonly<Record<string, TarType>> = {
  '\0': 'file',
  '0': 'file',
  '1': 'link',
  '2': 'symlink',
  '3': 'character',
  '4': 'block',
  '5': 'directory',
  '6': 'fifo',
};

export interface TarEntry {
  /** Without leading `./` and trailing `/`; the root is the empty string. */
  readonly path: string;
  readonly type: TarType;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  /** Target of a symlink as it stands, of a hard link as a path like `path`. */
  readonly target: string;
  /** Extension records that are no path, size or time: extended attributes above all. */
  readonly attributes: readonly string[];
  /** All header blocks of the entry, extensions included. */
  readonly header: Buffer;
  readonly dataOffset: number;
}

/** @throws when the file is no tar archive, or ends within an entry */
export function* readTar(descriptor: number): Generator<TarEntry, void> {
  let at = 0;
  while (true) {
    const entry = readEntry(descriptor, at);
    if (entry === undefined) return;
    yield entry;
    at = entry.dataOffset + padded(entry.size);
  }
}

function readEntry(descriptor: number, start: number): TarEntry | undefined {
  const extensions = new Map<string, string>();
  const headers: Buffer[] = [];
  for (let at = start; ; ) {
    const header = readBytes(descriptor, at, block);
    if (header.every((byte) => byte === 0)) return undefined;
    checkSum(header, at);
    headers.push(header);
    at += block;
    const size = number(header, 124, 12);
    const flag = String.fromCharCode(header[156] ?? 0);
    if (flag !== 'x' && flag !== 'g' && flag !== 'L' && flag !== 'K') {
      return toEntry({ header, flag, size, extensions, headers: Buffer.concat(headers), dataOffset: at });
    }
    if (size > extensionBytesMax)
      throw new Failure('tar_malformed', `tar: an extension of ${size} bytes at ${at}`);
    const body = readBytes(descriptor, at, padded(size));
    headers.push(body);
    at += body.length;
    takeExtension(flag, body.subarray(0, size).toString('latin1'), extensions);
  }
}

function toEntry(found: {
  readonly header: Buffer;
  readonly flag: string;
  readonly size: number;
  readonly extensions: ReadonlyMap<string, string>;
  readonly headers: Buffer;
  readonly dataOffset: number;
}): TarEntry {
  const { header, extensions } = found;
  const type = types[found.flag];
  if (type === undefined)
    throw new Failure('tar_malformed', `tar: an entry of the unknown type "${found.flag}"`);
  const prefix = text(header, 345, 155);
  const path = extensions.get('path') ?? (prefix === '' ? '' : `${prefix}/`) + text(header, 0, 100);
  const target = extensions.get('linkpath') ?? text(header, 157, 100);
  return {
    path: plainPath(path),
    type,
    mode: number(header, 100, 8),
    uid: Number(extensions.get('uid') ?? number(header, 108, 8)),
    gid: Number(extensions.get('gid') ?? number(header, 116, 8)),
    size: type === 'file' ? Number(extensions.get('size') ?? found.size) : 0,
    target: type === 'link' ? plainPath(target) : target,
    attributes: [...extensions].filter(([key]) => key.startsWith('SCHILY.')).map((pair) => pair.join('=')),
    header: found.headers,
    dataOffset: found.dataOffset,
  };
}

function takeExtension(flag: string, body: string, extensions: Map<string, string>): void {
  if (flag === 'L') extensions.set('path', body.replace(/\0+$/, ''));
  if (flag === 'K') extensions.set('linkpath', body.replace(/\0+$/, ''));
  if (flag !== 'x') return;
  for (let at = 0; at < body.length; ) {
    const space = body.indexOf(' ', at);
    const length = Number(body.slice(at, space));
    if (space < 0 || !Number.isInteger(length) || length <= space - at)
      throw new Failure('tar_malformed', 'tar: a broken pax record');
    const record = body.slice(space + 1, at + length - 1);
    const equals = record.indexOf('=');
    extensions.set(record.slice(0, equals), record.slice(equals + 1));
    at += length;
  }
}

/** An entry of our own, for what no archive holds: written as plain ustar, so paths are short. */
export function ownHeader(entry: {
  readonly path: string;
  readonly type: 'file' | 'character' | 'directory';
  readonly mode: number;
  readonly size: number;
  readonly mtimeS: number;
}): Buffer {
  if (entry.path.length > 100)
    throw new Failure('path_too_long', `tar: the path "${entry.path}" is too long for an own entry`);
  const header = Buffer.alloc(block);
  header.write(entry.path, 0, 'latin1');
  const flag = { file: '0', character: '3', directory: '5' }[entry.type];
  for (const [offset, value] of [
    [100, entry.mode],
    [108, 0],
    [116, 0],
    [329, 0],
    [337, 0],
  ] as const) {
    header.write(`${value.toString(8).padStart(7, '0')}\0`, offset, 'latin1');
  }
  header.write(`${entry.size.toString(8).padStart(11, '0')}\0`, 124, 'latin1');
  header.write(`${entry.mtimeS.toString(8).padStart(11, '0')}\0`, 136, 'latin1');
  header.write(`        ${flag}`, 148, 'latin1');
  header.write('ustar\x0000', 257, 'latin1');
  header.write(`${sum(header).toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return header;
}

/** Writes one archive, an entry after the other. */
export class TarWriter {
  readonly #descriptor: number;

  constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  copy(entry: TarEntry, source: number): void {
    writeSync(this.#descriptor, entry.header);
    const end = entry.dataOffset + padded(entry.size);
    for (let at = entry.dataOffset; at < end; ) {
      const chunk = readBytes(source, at, Math.min(1 << 20, end - at));
      writeSync(this.#descriptor, chunk);
      at += chunk.length;
    }
  }

  own(header: Buffer, data: Buffer = Buffer.alloc(0)): void {
    writeSync(this.#descriptor, header);
    writeSync(this.#descriptor, Buffer.concat([data, Buffer.alloc(padded(data.length) - data.length)]));
  }

  end(): void {
    writeSync(this.#descriptor, Buffer.alloc(2 * block));
  }
}

export function readBytes(descriptor: number, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let filled = 0;
  while (filled < length) {
    const count = readSync(descriptor, bytes, filled, length - filled, offset + filled);
    if (count === 0)
      throw new Failure('tar_malformed', `tar: the archive ends at ${offset + filled}, within an entry`);
    filled += count;
  }
  return bytes;
}

function padded(size: number): number {
  return Math.ceil(size / block) * block;
}

function plainPath(path: string): string {
  return path
    .replace(/^(\.?\/)+/, '')
    .replace(/\/+$/, '')
    .replace(/^\.$/, '');
}

function text(header: Buffer, offset: number, length: number): string {
  const bytes = header.toString('latin1', offset, offset + length);
  const end = bytes.indexOf('\0');
  return end < 0 ? bytes : bytes.slice(0, end);
}

/** Octal digits, or with the first bit set a binary number (GNU, for what octal can't hold). */
function number(header: Buffer, offset: number, length: number): number {
  if (((header[offset] ?? 0) & 0x80) !== 0) {
    return Number(header.readBigUInt64BE(offset + length - 8) & 0x3f_ffff_ffff_ffffn);
  }
  const digits = text(header, offset, length).trim();
  if (digits !== '' && !/^[0-7]+$/.test(digits))
    throw new Failure('tar_malformed', `tar: "${digits}" is no number`);
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}

function sum(header: Buffer): number {
  return header.reduce((total, byte) => total + byte, 0);
}

function checkSum(header: Buffer, at: number): void {
  const stated = number(header, 148, 8);
  const blank = Buffer.from(header);
  blank.fill(0x20, 148, 156);
  if (sum(blank) !== stated) throw new Failure('tar_malformed', `tar: no header at ${at}`);
}
