/** A header of our own for any entry: ustar, and pax records before it for what ustar can not hold. */
import type { TarType } from './format.ts';

const block = 512;

export interface EntryHeader {
  /** Latin-1, as `format.ts` reads names. */
  readonly path: string;
  readonly type: Extract<TarType, 'file' | 'link' | 'symlink' | 'directory'>;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly mtimeS: number;
  /** Of links. */
  readonly target: string;
  /** `SCHILY.xattr.NAME=VALUE`. */
  readonly attributes: readonly string[];
}

const flags = { file: '0', link: '1', symlink: '2', directory: '5' } as const;

export function entryHeader(entry: EntryHeader): Buffer {
  const path = entry.type === 'directory' ? `${entry.path}/` : entry.path;
  const records = [
    ...(path.length > 100 ? [`path=${path}`] : []),
    ...(entry.target.length > 100 ? [`linkpath=${entry.target}`] : []),
    ...entry.attributes,
  ].map(paxRecord);
  const header = ustar({ ...entry, path }, flags[entry.type]);
  if (records.length === 0) return header;
  const body = Buffer.from(records.join(''), 'latin1');
  const padding = Buffer.alloc(Math.ceil(body.length / block) * block - body.length);
  const plain = { ...entry, path: 'pax', target: '', size: body.length, mode: 0o644 };
  return Buffer.concat([ustar(plain, 'x'), body, padding, header]);
}

/** Its length counts its own digits. */
function paxRecord(text: string): string {
  let length = text.length + 3;
  while (`${length} ${text}\n`.length !== length) length = `${length} ${text}\n`.length;
  return `${length} ${text}\n`;
}

function ustar(entry: EntryHeader, flag: string): Buffer {
  const header = Buffer.alloc(block);
  header.write(entry.path.slice(0, 100), 0, 'latin1');
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, '0')}\0`;
  for (const [offset, value] of [
    [100, entry.mode],
    [108, entry.uid],
    [116, entry.gid],
    [329, 0],
    [337, 0],
  ] as const)
    header.write(octal(value, 7), offset, 'latin1');
  header.write(octal(entry.size, 11), 124, 'latin1');
  header.write(octal(entry.mtimeS, 11), 136, 'latin1');
  header.write(`        ${flag}`, 148, 'latin1');
  header.write(entry.target.slice(0, 100), 157, 'latin1');
  header.write('ustar\x0000', 257, 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return header;
}
