/**
 * Files that are either the old or the new one after any crash: written under another name, synced, renamed,
 * and the directory synced, in this order. Without the last step a rename may be undone by a power cut.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** @throws whatever the file system says; nothing is left under the other name */
export async function writeFileAtomic(path: string, data: string | Uint8Array, mode = 0o600): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.new`;
  try {
    await using file = await openOwned(temporary, mode);
    await file.handle.writeFile(data);
    await file.handle.sync();
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncDirectory(dirname(path));
}

const unfinished = /\.[0-9a-f]{12}\.new$/;

/**
 * What writes that were cut short, by a power cut for example, have left in it, and in its own directories where `depth` is 1. Nobody may
 * be writing there. What can't be looked at or removed stays, and does no harm.
 */
export async function removeUnfinished(directory: string, depth: 0 | 1): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true }).catch(() => [])) {
    const path = join(directory, entry.name);
    if (entry.isFile() && unfinished.test(entry.name)) await rm(path).catch(() => undefined);
    if (entry.isDirectory() && depth === 1) await removeUnfinished(path, 0);
  }
}

/** Makes renames, new names and removals in this directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

async function openOwned(path: string, mode: number): Promise<{ handle: FileHandle } & AsyncDisposable> {
  const handle = await open(path, 'wx', mode);
  return { handle, [Symbol.asyncDispose]: () => handle.close() };
}
