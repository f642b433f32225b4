/** Files of this machine as a tar, for a sandbox to unpack: thousands of them in one request. */
import { closeSync, fstatSync, readSync } from 'node:fs';
import { CliFailure, errorCode } from '../failure.ts';
import type { LocalTree } from './local-tree.ts';
import { bytesOf, shown, type Tree, type TreeEntry } from './tree.ts';

const blockBytes = 512;
/** Small files go out together, and are read whole first: what changes meanwhile is then one state of it or the other. */
const pieceBytes = 262_144;
/** What a header's field holds; more stands in a record before it. */
const nameBytesMax = 100;
const sizeMax = 0o77777777777;

export async function* writeTar(
  local: LocalTree,
  tree: Tree,
  paths: readonly string[],
): AsyncGenerator<Buffer, void, void> {
  let waiting: Buffer[] = [];
  let bytes = 0;
  for (const path of paths) {
    const entry = tree.entries.get(path);
    if (entry === undefined) continue;
    for (const part of partsOf(local, path, entry)) {
      waiting.push(part);
      bytes += part.length;
      if (bytes < pieceBytes) continue;
      yield Buffer.concat(waiting);
      waiting = [];
      bytes = 0;
    }
  }
  yield Buffer.concat([...waiting, Buffer.alloc(2 * blockBytes)]);
}

function* partsOf(local: LocalTree, path: string, entry: TreeEntry): Generator<Buffer, void, void> {
  if (entry.type !== 'file') {
    yield headersOf(path, entry, 0);
    return;
  }
  const fd = openIfThere(local, path);
  if (fd === undefined) return;
  try {
    const stats = fstatSync(fd);
    const now = { ...entry, mode: stats.mode & 0o777, mtimeMs: Math.floor(stats.mtimeMs) };
    yield* stats.size <= pieceBytes
      ? wholeFile(fd, path, now)
      : longFile(fd, path, { ...now, size: stats.size });
  } finally {
    closeSync(fd);
  }
}

/** One that went since the directory was read is as if it had not been there. */
function openIfThere(local: LocalTree, path: string): number | undefined {
  try {
    return local.openFile(path);
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return undefined;
    throw cause;
  }
}

function* wholeFile(fd: number, path: string, entry: TreeEntry): Generator<Buffer, void, void> {
  const content = readUpTo(fd, pieceBytes);
  yield headersOf(path, entry, content.length);
  yield content;
  yield padding(content.length);
}

function* longFile(fd: number, path: string, entry: TreeEntry): Generator<Buffer, void, void> {
  yield headersOf(path, entry, entry.size);
  for (let left = entry.size; left > 0; ) {
    const part = readUpTo(fd, Math.min(left, pieceBytes));
    // Cut off here the sandbox keeps the file that it has.
    if (part.length === 0)
      throw new CliFailure('file_unreadable', `"${shown(path)}" became shorter while it was read`);
    left -= part.length;
    yield part;
  }
  yield padding(entry.size);
}

function readUpTo(fd: number, bytes: number): Buffer {
  const into = Buffer.allocUnsafe(bytes);
  let length = 0;
  while (length < bytes) {
    const got = readSync(fd, into, length, bytes - length, null);
    if (got === 0) break;
    length += got;
  }
  return into.subarray(0, length);
}

function headersOf(path: string, entry: TreeEntry, size: number): Buffer {
  const name = bytesOf(path);
  const target = bytesOf(entry.target);
  const records: Buffer[] = [];
  const seconds = Math.max(0, Math.floor(entry.mtimeMs / 1_000));
  if (name.length > nameBytesMax) records.push(record('path', name));
  if (target.length > nameBytesMax) records.push(record('linkpath', target));
  if (size > sizeMax) records.push(record('size', Buffer.from(`${size}`)));
  if (entry.mtimeMs % 1_000 > 0) {
    const fraction = `${entry.mtimeMs % 1_000}`.padStart(3, '0');
    records.push(record('mtime', Buffer.from(`${seconds}.${fraction}`)));
  }
  const type = { file: '0', directory: '5', symlink: '2', other: '' }[entry.type];
  const own = header({ name, target, type, size, mode: entry.mode, seconds });
  if (records.length === 0) return own;
  const extension = Buffer.concat(records);
  const before = header({
    name,
    target: Buffer.alloc(0),
    type: 'x',
    size: extension.length,
    mode: 0o600,
    seconds,
  });
  return Buffer.concat([before, extension, padding(extension.length), own]);
}

interface Header {
  readonly name: Buffer;
  readonly target: Buffer;
  readonly type: string;
  readonly size: number;
  readonly mode: number;
  readonly seconds: number;
}

function header({ name, target, type, size, mode, seconds }: Header): Buffer {
  const block = Buffer.alloc(blockBytes);
  const octal = (at: number, width: number, value: number): void => {
    block.write(value.toString(8).padStart(width - 1, '0'), at, 'latin1');
  };
  name.copy(block, 0, 0, nameBytesMax);
  octal(100, 8, mode);
  octal(108, 8, 0);
  octal(116, 8, 0);
  octal(124, 12, size > sizeMax ? 0 : size);
  octal(136, 12, seconds);
  block.fill(' ', 148, 156);
  block.write(type, 156, 'latin1');
  target.copy(block, 157, 0, nameBytesMax);
  block.write('ustar\0' + '00', 257, 'latin1');
  octal(
    148,
    7,
    block.reduce((sum, byte) => sum + byte, 0),
  );
  return block;
}

/** `LENGTH KEY=VALUE\n`, whose length counts itself. */
function record(key: string, value: Buffer): Buffer {
  const rest = key.length + value.length + 3;
  let length = rest + 1;
  while (rest + `${length}`.length !== length) length += 1;
  return Buffer.concat([Buffer.from(`${length} ${key}=`), value, Buffer.from('\n')]);
}

const padding = (size: number): Buffer => Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes);
