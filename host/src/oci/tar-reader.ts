/**
 * Reads tar strictly, from a part of a file. An archive of an image comes from anybody: every number is checked, nothing is
 * guessed, and what is not understood is refused rather than passed over.
 *
 * Names are bytes in Latin-1 strings: a file system takes any, and what is no UTF-8 has to come out as it went in.
 */
import { readSync } from 'node:fs';
import { Failure } from '@squash/base/failure';

export const tarBlock = 512;
/** An entry with more of extensions than this, all together, has no names and attributes that a file system would take. */
const extensionBytesMax = 1 << 20;
/** What is read at once: most headers of small files come with one read. */
const windowBytes = 1 << 18;

export type TarType = 'file' | 'link' | 'symlink' | 'device' | 'directory' | 'fifo';

const types: Readonly<Record<string, TarType>> = {
  '\0': 'file',
  '0': 'file',
  '7': 'file',
  '1': 'link',
  '2': 'symlink',
  '3': 'device',
  '4': 'device',
  '5': 'directory',
  '6': 'fifo',
};

export interface TarEntry {
  /** As it stands in the archive. */
  readonly name: string;
  readonly type: TarType;
  /** Permissions, with set-uid, set-gid and the sticky bit. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Seconds since 1970, whole. */
  readonly mtimeS: number;
  readonly size: number;
  /** As it stands in the archive; of a link or a symbolic link. */
  readonly target: string;
  /** Extended attributes: name → value, both bytes. */
  readonly attributes: ReadonlyMap<string, string>;
  /** In the file that was opened. */
  readonly dataOffset: number;
}

/** What is told of a malformed archive. */
export function malformed(what: string): Failure {
  return new Failure('tar_malformed', what);
}

/** A part of a file that is an archive. */
export interface TarPlace {
  readonly descriptor: number;
  readonly offset: number;
  readonly length: number;
}

/** @throws Failure `tar_malformed` */
export function* readTar(place: TarPlace): Generator<TarEntry, void> {
  const source = new Window(place);
  for (let at = 0; ; ) {
    const entry = readEntry(source, at);
    if (entry === undefined) return;
    yield entry;
    at = entry.dataOffset - place.offset + padded(entry.size);
    // Else the last file's data would only be missed when it is copied.
    if (at > place.length) throw malformed(`the archive ends within "${shown(entry.name)}"`);
  }
}

function readEntry(source: Window, start: number): TarEntry | undefined {
  const extensions = new Map<string, string>();
  for (let at = start; ; ) {
    const header = source.read(at, tarBlock, at === start);
    // The end that writers mark, or the end of the file where they do not.
    if (header === undefined || header.every((byte) => byte === 0)) {
      if (at !== start) throw malformed('the archive ends behind an extension');
      return undefined;
    }
    checkSum(header, at);
    at += tarBlock;
    const size = number(header, 124, 12);
    const flag = String.fromCharCode(header[156] ?? 0);
    if (flag === 'g' || flag === 'x' || flag === 'L' || flag === 'K') {
      if (at - start + size > extensionBytesMax)
        throw malformed(`extensions of more than ${extensionBytesMax} bytes`);
      const body = source.read(at, size);
      if (flag !== 'g') takeExtension(flag, body.toString('latin1'), extensions);
      at += padded(size);
    } else return toEntry(header, { flag, size, extensions, dataOffset: source.offset + at });
  }
}

interface Found {
  readonly flag: string;
  readonly size: number;
  readonly extensions: ReadonlyMap<string, string>;
  readonly dataOffset: number;
}

function toEntry(header: Buffer, { flag, size, extensions, dataOffset }: Found): TarEntry {
  const isUstar = header.toString('latin1', 257, 262) === 'ustar';
  const prefix = isUstar && header[262] === 0 ? text(header, 345, 155) : '';
  const name = extensions.get('path') ?? (prefix === '' ? '' : `${prefix}/`) + text(header, 0, 100);
  if (flag === 'S' || [...extensions.keys()].some((key) => key.startsWith('GNU.sparse.')))
    throw malformed(`"${shown(name)}" is a sparse file, whose parts are in no standard form`);
  // Writers before 1988 had no type for directories.
  const type = types[flag] === 'file' && name.endsWith('/') ? 'directory' : types[flag];
  if (type === undefined) throw malformed(`"${shown(name)}" is of the unknown type "${shown(flag)}"`);
  const stated = decimal(extensions, 'size') ?? size;
  return {
    name,
    type,
    mode: number(header, 100, 8) & 0o7777,
    uid: decimal(extensions, 'uid') ?? number(header, 108, 8),
    gid: decimal(extensions, 'gid') ?? number(header, 116, 8),
    mtimeS: time(extensions, header),
    // Some writers give a link the size of what it leads to; no data follows.
    size: type === 'file' ? stated : 0,
    target: extensions.get('linkpath') ?? text(header, 157, 100),
    attributes: attributesOf(extensions),
    dataOffset,
  };
}

const attributePrefix = 'SCHILY.xattr.';

function attributesOf(extensions: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [key, value] of extensions) {
    if (key.startsWith(attributePrefix)) found.set(key.slice(attributePrefix.length), value);
  }
  return found;
}

function decimal(extensions: ReadonlyMap<string, string>, key: string): number | undefined {
  const stated = extensions.get(key);
  if (stated === undefined) return undefined;
  const value = Number(stated);
  if (!/^\d{1,16}$/.test(stated) || !Number.isSafeInteger(value))
    throw malformed(`${key} is "${shown(stated)}", which is no number`);
  return value;
}

/** Fractions are dropped, as squashfs has none; so is what lies outside of its 32 bits. */
function time(extensions: ReadonlyMap<string, string>, header: Buffer): number {
  const stated = extensions.get('mtime');
  const value = stated === undefined ? signedTime(header) : Number(stated);
  if (!Number.isFinite(value) || stated === '') throw malformed(`mtime is "${shown(stated ?? '')}"`);
  return Math.min(Math.max(Math.floor(value), 0), 0xffff_ffff);
}

/** A base-256 number may be negative: a time before 1970. */
function signedTime(header: Buffer): number {
  return header[136] === 0xff ? 0 : number(header, 136, 12);
}

function takeExtension(flag: string, body: string, extensions: Map<string, string>): void {
  if (flag === 'L') extensions.set('path', body.replace(/\0+$/, ''));
  else if (flag === 'K') extensions.set('linkpath', body.replace(/\0+$/, ''));
  else takeRecords(body, extensions);
}

function takeRecords(body: string, extensions: Map<string, string>): void {
  for (let at = 0; at < body.length; ) {
    const space = body.indexOf(' ', at);
    const digits = space < 0 ? '' : body.slice(at, space);
    const length = Number(digits);
    const end = at + length;
    const record = body.slice(space + 1, end - 1);
    const equals = record.indexOf('=');
    if (!/^[1-9]\d{0,7}$/.test(digits) || end > body.length || body[end - 1] !== '\n' || equals < 1)
      throw malformed('a broken pax record');
    extensions.set(record.slice(0, equals), record.slice(equals + 1));
    at = end;
  }
}

/** The part of the file that was read last. */
class Window {
  readonly offset: number;
  readonly #place: TarPlace;
  #bytes: Buffer = Buffer.alloc(0);
  #start = 0;

  constructor(place: TarPlace) {
    this.#place = place;
    this.offset = place.offset;
  }

  read(at: number, length: number): Buffer;
  /** Undefined where the archive ends right there, and that may be. */
  read(at: number, length: number, mayEnd: boolean): Buffer | undefined;
  read(at: number, length: number, mayEnd = false): Buffer | undefined {
    if (mayEnd && at === this.#place.length) return undefined;
    if (at + length > this.#place.length)
      throw malformed(`the archive ends at ${this.#place.length}, too early`);
    if (at < this.#start || at + length > this.#start + this.#bytes.length) this.#fill(at, length);
    return this.#bytes.subarray(at - this.#start, at - this.#start + length);
  }

  #fill(at: number, length: number): void {
    const wanted = Math.min(Math.max(length, windowBytes), this.#place.length - at);
    this.#bytes = readBytes(this.#place.descriptor, this.offset + at, wanted);
    this.#start = at;
  }
}

/** All of them. @throws Failure `tar_malformed` where the file ends before */
export function readBytes(descriptor: number, offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  for (let filled = 0; filled < length; ) {
    const count = readSync(descriptor, bytes, filled, length - filled, offset + filled);
    if (count === 0) throw malformed(`the archive ends at ${offset + filled}, within an entry`);
    filled += count;
  }
  return bytes;
}

export function padded(size: number): number {
  return Math.ceil(size / tarBlock) * tarBlock;
}

function text(header: Buffer, offset: number, length: number): string {
  const bytes = header.toString('latin1', offset, offset + length);
  const end = bytes.indexOf('\0');
  return end < 0 ? bytes : bytes.slice(0, end);
}

/** Octal digits, or with the first bit set a binary number (GNU, for what octal can't hold). */
function number(header: Buffer, offset: number, length: number): number {
  const first = header[offset] ?? 0;
  if ((first & 0x80) !== 0) return binary(header.subarray(offset, offset + length));
  const digits = text(header, offset, length).trim();
  if (digits !== '' && !/^[0-7]+$/.test(digits)) throw malformed(`"${shown(digits)}" is no number`);
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}

function binary(field: Buffer): number {
  let value = 0n;
  for (const [at, byte] of field.entries()) value = (value << 8n) | BigInt(at === 0 ? byte & 0x7f : byte);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw malformed('a number that is negative or too large');
  return Number(value);
}

function checkSum(header: Buffer, at: number): void {
  const stated = number(header, 148, 8);
  let sum = 8 * 0x20;
  for (let i = 0; i < tarBlock; i += 1) if (i < 148 || i >= 156) sum += header[i] ?? 0;
  if (sum !== stated) throw malformed(`what stands at ${at} is no header`);
}

/** For a message: names in an archive may be any bytes. */
export function shown(name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]/g, '?');
  return plain.length > 200 ? `${plain.slice(0, 200)}…` : plain;
}
