/** The entries of a tar, in POSIX's extended form: names and numbers of any length. */
import { joined } from './bytes.ts';

export interface WrittenEntry {
  readonly type: 'file' | 'directory' | 'symlink';
  /** Relative, without `.` and `..`; as bytes where it need not be UTF-8. */
  readonly name: string | Uint8Array;
  readonly mode: number;
  /** Whole milliseconds. */
  readonly mtimeMs: number;
  readonly size: number;
  /** A symlink's text. */
  readonly target: string | Uint8Array;
}

const blockBytes = 512;
const encoder = new TextEncoder();
/** What a header's fields hold; more stands in a record before it. */
const nameBytesMax = 100;
const sizeMax = 0o77777777777;
const typeFlags = { file: '0', directory: '5', symlink: '2' } as const;

/** What stands before an entry's content. */
export function tarHeader(entry: WrittenEntry): Uint8Array {
  const name = bytesOf(entry.name);
  const target = bytesOf(entry.target);
  const seconds = Math.max(0, Math.floor(entry.mtimeMs / 1000));
  const fraction = entry.mtimeMs % 1000;
  const records = [
    ...(name.length > nameBytesMax ? [record('path', name)] : []),
    ...(target.length > nameBytesMax ? [record('linkpath', target)] : []),
    ...(entry.size > sizeMax ? [record('size', bytesOf(`${entry.size}`))] : []),
    ...(fraction > 0 ? [record('mtime', bytesOf(`${seconds}.${`${fraction}`.padStart(3, '0')}`))] : []),
  ];
  const size = Math.min(entry.size, sizeMax);
  const header = block({ name, target, size, seconds, mode: entry.mode, flag: typeFlags[entry.type] });
  if (records.length === 0) return header;
  const content = joined(records);
  const before = { name: bytesOf('extended'), target: bytesOf(''), size: content.length, seconds };
  return joined([block({ ...before, mode: 0o600, flag: 'x' }), content, tarPadding(content.length), header]);
}

/** What stands behind content of this length. */
export function tarPadding(bytes: number): Uint8Array {
  return new Uint8Array((blockBytes - (bytes % blockBytes)) % blockBytes);
}

export function tarEnd(): Uint8Array {
  return new Uint8Array(2 * blockBytes);
}

function bytesOf(text: string | Uint8Array): Uint8Array {
  return typeof text === 'string' ? encoder.encode(text) : text;
}

/** `LENGTH KEY=VALUE\n`, whose length counts itself. */
function record(key: string, value: Uint8Array): Uint8Array {
  const rest = key.length + value.length + 3;
  let length = rest + String(rest).length;
  if (String(length).length > String(rest).length) length = rest + String(length).length;
  return joined([bytesOf(`${length} ${key}=`), value, bytesOf('\n')]);
}

interface Fields {
  readonly name: Uint8Array;
  readonly target: Uint8Array;
  readonly mode: number;
  readonly size: number;
  readonly seconds: number;
  readonly flag: string;
}

function block({ name, target, mode, size, seconds, flag }: Fields): Uint8Array {
  const bytes = new Uint8Array(blockBytes);
  const put = (at: number, text: string): void => bytes.set(encoder.encode(text), at);
  const octal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0');
  bytes.set(name.subarray(0, nameBytesMax));
  put(100, octal(mode & 0o7777, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(size, 11));
  put(136, octal(seconds, 11));
  put(148, '        ');
  put(156, flag);
  bytes.set(target.subarray(0, nameBytesMax), 157);
  put(257, 'ustar\0' + '00');
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  put(148, `${octal(sum, 6)}\0 `);
  return bytes;
}
