/** The entries of a tar, in POSIX's extended form: names and numbers of any length. */

export interface WrittenEntry {
  readonly type: 'file' | 'directory' | 'symlink';
  /** Relative, without `.` and `..`. */
  readonly name: string;
  readonly mode: number;
  readonly mtimeS: number;
  readonly size: number;
  /** A symlink's text. */
  readonly target: string;
}

const blockBytes = 512;
const encoder = new TextEncoder();
/** What eleven octal digits hold. */
const sizeMax = 8_589_934_591;
const typeFlags = { file: '0', directory: '5', symlink: '2' } as const;

/** What stands before an entry's content. */
export function tarHeader(entry: WrittenEntry): Uint8Array {
  const name = entry.type === 'directory' ? `${entry.name}/` : entry.name;
  const records = [
    ...(isPlain(name) ? [] : [record('path', name)]),
    ...(isPlain(entry.target) ? [] : [record('linkpath', entry.target)]),
    ...(entry.size > sizeMax ? [record('size', String(entry.size))] : []),
  ];
  const header = block({ ...entry, name, size: Math.min(entry.size, sizeMax) }, typeFlags[entry.type]);
  if (records.length === 0) return header;
  const content = encoder.encode(records.join(''));
  const extension = { ...entry, name: 'extended', target: '', size: content.length };
  const before = [block(extension, 'x'), content, tarPadding(content.length)];
  const whole = new Uint8Array([...before, header].reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of [...before, header]) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** What stands behind content of this length. */
export function tarPadding(bytes: number): Uint8Array {
  return new Uint8Array((blockBytes - (bytes % blockBytes)) % blockBytes);
}

export function tarEnd(): Uint8Array {
  return new Uint8Array(2 * blockBytes);
}

function isPlain(text: string): boolean {
  return text.length <= 100 && /^[\x20-\x7e]*$/.test(text);
}

/** `LENGTH KEY=VALUE\n`, whose length counts itself. */
function record(key: string, value: string): string {
  const rest = encoder.encode(` ${key}=${value}\n`).length;
  let length = rest + String(rest).length;
  if (String(length).length > String(rest).length) length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}

function block({ name, mode, size, mtimeS, target }: WrittenEntry, flag: string): Uint8Array {
  const bytes = new Uint8Array(blockBytes);
  const put = (at: number, text: string, lengthMax: number): void =>
    bytes.set(encoder.encode(text).subarray(0, lengthMax), at);
  const octal = (value: number, digits: number): string =>
    Math.max(0, value).toString(8).padStart(digits, '0');
  put(0, name, 100);
  put(100, octal(mode & 0o7777, 7), 7);
  put(108, octal(0, 7), 7);
  put(116, octal(0, 7), 7);
  put(124, octal(size, 11), 11);
  put(136, octal(Math.floor(mtimeS), 11), 11);
  put(148, '        ', 8);
  put(156, flag, 1);
  put(157, target, 100);
  put(257, 'ustar\0' + '00', 8);
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  put(148, `${octal(sum, 6)}\0 `, 8);
  return bytes;
}
