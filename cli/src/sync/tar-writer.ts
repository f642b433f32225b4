/** Files of this machine as a tar, for a sandbox to unpack: thousands of them in one request. */
import { closeSync, fstatSync, readSync } from 'node:fs';
import { tarEnd, tarHeader, tarPadding } from '@squash/sdk/tar-writer';
import { CliFailure, errorCode } from '../failure.ts';
import type { LocalTree } from './local-tree.ts';
import { bytesOf, shown, type Tree, type TreeEntry } from './tree.ts';

/** Small files go out together, and are read whole first: what changes meanwhile is then one state of it or the other. */
const pieceBytes = 262_144;

export async function* writeTar(
  local: LocalTree,
  tree: Tree,
  paths: readonly string[],
): AsyncGenerator<Buffer, void, void> {
  let waiting: Uint8Array[] = [];
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
  yield Buffer.concat([...waiting, tarEnd()]);
}

function* partsOf(local: LocalTree, path: string, entry: TreeEntry): Generator<Uint8Array, void, void> {
  if (entry.type !== 'file') {
    yield headerOf(path, entry, 0);
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

function* wholeFile(fd: number, path: string, entry: TreeEntry): Generator<Uint8Array, void, void> {
  const content = readUpTo(fd, pieceBytes);
  yield headerOf(path, entry, content.length);
  yield content;
  yield tarPadding(content.length);
}

function* longFile(fd: number, path: string, entry: TreeEntry): Generator<Uint8Array, void, void> {
  yield headerOf(path, entry, entry.size);
  for (let left = entry.size; left > 0; ) {
    const part = readUpTo(fd, Math.min(left, pieceBytes));
    // Cut off here the sandbox keeps the file that it has.
    if (part.length === 0)
      throw new CliFailure('file_unreadable', `"${shown(path)}" became shorter while it was read`);
    left -= part.length;
    yield part;
  }
  yield tarPadding(entry.size);
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

function headerOf(path: string, { type, mode, mtimeMs, target }: TreeEntry, size: number): Uint8Array {
  if (type === 'other')
    throw new CliFailure('file_unreadable', `"${shown(path)}" is no file, no directory and no symlink`);
  const names = { name: bytesOf(path), target: bytesOf(target) };
  return tarHeader({ ...names, type, mode, mtimeMs: Math.max(0, mtimeMs), size });
}
