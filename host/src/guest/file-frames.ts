/** What file requests carry and what may answer them. The guest is hostile: a name that leads elsewhere is its breach. */
import { Buffer } from 'node:buffer';
import { type Field, type Frame, FrameError } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import { type FieldName, fileTypes, guestLimits } from '@squash/contract/guest/frames';
import { breach } from './frame-connection.ts';
import type { AsUser, Creation, FileChange, FileMatch, FileStat, GuestFilePath } from './guest.ts';
import { refuse } from './guest-error.ts';

export type Values = (readonly [FieldName, number | string | Uint8Array])[];

const idMax = 4_294_967_295;
const nameBytesMax = 255;
/** PID 1's own bound of a line's text. */
const lineBytesMax = 4_096;
const changes: readonly FileChange[] = ['created', 'changed', 'attributes', 'removed', 'moved', 'overflow'];
const typeNames = new Map<number, FileStat['type']>(
  Object.entries(fileTypes).map(([name, value]) => [value, name as FileStat['type']]),
);

/** The fields that are there: what is undefined or false is left out, true is 1. */
export function valuesOf(
  given: Partial<Record<FieldName, number | string | Uint8Array | boolean | undefined>>,
): Values {
  const values: Values = [];
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === false) continue;
    values.push([name as FieldName, value === true ? 1 : value]);
  }
  return values;
}

export function target(path: GuestFilePath, { as }: AsUser): Values {
  return valuesOf({ path, uid: as?.uid, gid: as?.gid });
}

export function creation(path: GuestFilePath, options: Creation): Values {
  const { mode, createParents, owner } = options;
  return [
    ...target(path, options),
    ...valuesOf({ mode, createParents, owner: owner?.uid, ownerGroup: owner?.gid }),
  ];
}

export function expectOk(frame: Frame, subject: string): void {
  if (frame.type !== 'ok') throw refuse(frame, subject);
  checked(() => new FieldReader(frame.fields).done());
}

/** A guest's fields that are wrong are its breach, not our fault. */
function checked<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw error instanceof FrameError ? breach(error.message, error) : error;
  }
}

export function parseStat(fields: readonly Field[]): FileStat {
  return checked(() => {
    const reader = new FieldReader(fields);
    const stat = readStat(reader);
    reader.done();
    return stat;
  });
}

function readStat(reader: FieldReader): FileStat {
  const type = typeNames.get(reader.integer('fileType'));
  if (type === undefined) throw breach('a file of unknown type');
  const text = reader.optionalBytes('target', guestLimits.pathBytesMax);
  return {
    type,
    size: reader.integer('size'),
    mode: reader.integer('mode', { max: 0o7777 }),
    uid: reader.integer('uid', { max: idMax }),
    gid: reader.integer('gid', { max: idMax }),
    mtimeMs: reader.integer('mtimeMs'),
    target: text === undefined ? undefined : Buffer.from(text),
    inode: reader.optionalInteger('inode'),
    changedUs: reader.optionalInteger('changedUs'),
  };
}

/** @param depth parts that the path may have */
export function parseListed(fields: readonly Field[], depth: number): { path: Buffer; stat: FileStat } {
  return checked(() => {
    const reader = new FieldReader(fields);
    const path = below(reader.bytes('path', guestLimits.pathBytesMax));
    const stat = readStat(reader);
    reader.done();
    const parts = path.toString('latin1').split('/');
    if (path.length === 0 || parts.length > depth || parts.some((part) => part.length > nameBytesMax)) {
      throw breach('a name that is none');
    }
    return { path, stat };
  });
}

export function parseMatch(fields: readonly Field[]): FileMatch {
  return checked(() => {
    const reader = new FieldReader(fields);
    const match = {
      path: below(reader.bytes('path', guestLimits.pathBytesMax)),
      line: reader.integer('line', { min: 1 }),
      column: reader.integer('column', { min: 1 }),
      text: Buffer.from(reader.bytes('text', lineBytesMax)),
      offset: reader.integer('offset'),
    };
    reader.done();
    return match;
  });
}

export function parseEvent(fields: readonly Field[]): { change: FileChange; path: Buffer } {
  return checked(() => {
    const reader = new FieldReader(fields);
    const sent = reader.text('change', 16);
    const path = below(reader.bytes('path', guestLimits.pathBytesMax));
    reader.done();
    const change = changes.find((known) => known === sent);
    if (change === undefined) throw breach(`a change "${sent}"`);
    return { change, path };
  });
}

/** The end of a list: whether something was left out. */
export function parseListEnd(fields: readonly Field[]): boolean {
  return checked(() => {
    const reader = new FieldReader(fields);
    const isTruncated = reader.flag('truncated');
    reader.done();
    return isTruncated;
  });
}

export function parseExtracted(fields: readonly Field[]): { entries: number; bytes: number } {
  return checked(() => {
    const reader = new FieldReader(fields);
    const extracted = { entries: reader.integer('inodes'), bytes: reader.integer('bytes') };
    reader.done();
    return extracted;
  });
}

/** A relative path that stays below: somebody further up joins it to another one. */
function below(bytes: Uint8Array): Buffer {
  const path = Buffer.from(bytes);
  const text = path.toString('latin1');
  const leadsElsewhere =
    text.includes('\0') ||
    (text !== '' && text.split('/').some((part) => part === '' || part === '.' || part === '..'));
  if (leadsElsewhere) throw breach('a path that is not below the one asked about');
  return path;
}

/** For messages: what is not printable shows as escapes. */
export function quoted(path: GuestFilePath): string {
  return JSON.stringify(typeof path === 'string' ? path : new TextDecoder().decode(path));
}
