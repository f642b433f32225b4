/** The directory in a sandbox of `squash sync`. Whatever it says is a stranger's word. */
import type { FileInfo, FilePage } from '@squash/contract/file';
import { limits } from '@squash/contract/limits';
import { type Client, filesPath } from '../client/client.ts';
import { CliFailure } from '../failure.ts';
import type { Excludes } from './exclusions.ts';
import {
  bytesOf,
  isTemporary,
  parentOf,
  parentsOf,
  pathOf,
  shown,
  type Tree,
  type TreeEntry,
} from './tree.ts';

export interface RemoteDirectory {
  readonly client: Client;
  readonly id: string;
  /** Absolute. */
  readonly path: string;
}

/** Undefined where there is no such directory. */
export async function listRemote(
  { client, id, path }: RemoteDirectory,
  excludes: Excludes,
): Promise<Tree | undefined> {
  const entries = new Map<string, TreeEntry>();
  const kept = new Set<string>();
  const query = { path, depth: limits.fileDepthMax, limit: limits.pageItemsMax };
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await pageOf(client, filesPath(id, ['list'], { ...query, cursor }));
    if (page === undefined) return undefined;
    for (const item of page.items) {
      const at = checkedPath(item);
      if (isTemporary(at) || excludes(at, item.type === 'directory')) {
        for (const above of parentsOf(at)) kept.add(above);
        continue;
      }
      if (parentOf(at) !== '' && entries.get(parentOf(at))?.type !== 'directory') throw unsafe(at);
      entries.set(at, entryOf(item));
      if (entries.size > limits.archiveEntriesMax) {
        throw new CliFailure('archive_invalid', `there is too much in "${path}"`);
      }
    }
    cursor = page.next;
  }
  return { entries, kept };
}

async function pageOf(client: Client, address: string): Promise<FilePage | undefined> {
  try {
    return await client.get<FilePage>(address);
  } catch (cause) {
    if (cause instanceof CliFailure && cause.code === 'file_not_found') return undefined;
    throw cause;
  }
}

function checkedPath({ path, path_base64: bytes }: FileInfo): string {
  const at = pathOf(bytes === undefined ? Buffer.from(path, 'utf8') : Buffer.from(bytes, 'base64'));
  const parts = at.split('/');
  if (at.includes('\0') || parts.some((part) => part === '' || part === '.' || part === '..'))
    throw unsafe(at);
  return at;
}

function unsafe(path: string): CliFailure {
  return new CliFailure('archive_invalid', `the sandbox has a file that it calls "${shown(path)}"`);
}

function entryOf({ type, size, mode, modified_at: time, target, target_base64: bytes }: FileInfo): TreeEntry {
  const isKnown = type === 'file' || type === 'directory' || type === 'symlink';
  const mtimeMs = Date.parse(time);
  if (!Number.isSafeInteger(size) || size < 0 || Number.isNaN(mtimeMs)) {
    throw new CliFailure('archive_invalid', 'the sandbox tells sizes or times that are none');
  }
  return {
    type: isKnown ? type : 'other',
    size: type === 'file' ? size : 0,
    mode: Number.parseInt(mode, 8) & 0o777,
    mtimeMs,
    target:
      bytes === undefined ? pathOf(Buffer.from(target ?? '', 'utf8')) : pathOf(Buffer.from(bytes, 'base64')),
  };
}

/** The address of what is at a path below the directory. */
export function addressOf({ id, path }: RemoteDirectory, at: string, more: readonly string[] = []): string {
  return filesPath(id, more, { path_base64: absolute(path, at).toString('base64') });
}

function absolute(path: string, at: string): Buffer {
  const parent = Buffer.from(path === '/' ? '' : path, 'utf8');
  return at === '' ? Buffer.from(path, 'utf8') : Buffer.concat([parent, Buffer.from('/'), bytesOf(at)]);
}

/** With what is in it; one that is gone is no failure. */
export async function removeRemote(directory: RemoteDirectory, at: string): Promise<void> {
  try {
    await directory.client.delete(`${addressOf(directory, at)}&recursive=true`);
  } catch (cause) {
    if (!(cause instanceof CliFailure) || cause.code !== 'file_not_found') throw cause;
  }
}
