/** Which files of the same size have the same content on both sides: the other side's as one tar, both by digest. */
import { createHash } from 'node:crypto';
import { closeSync, readSync } from 'node:fs';
import { readTar } from '@squash/sdk/tar-reader';
import type { LocalTree } from './local-tree.ts';
import { addressOf, type RemoteDirectory } from './remote-tree.ts';
import type { Tree } from './tree.ts';

const readBytes = 262_144;

export async function sameContents(
  here: { readonly local: LocalTree; readonly tree: Tree },
  there: { readonly directory: RemoteDirectory; readonly tree: Tree },
): Promise<ReadonlySet<string>> {
  const candidates = new Set<string>();
  for (const [path, entry] of here.tree.entries) {
    const other = there.tree.entries.get(path);
    if (entry.type === 'file' && other?.type === 'file' && entry.size === other.size) candidates.add(path);
  }
  const same = new Set<string>();
  if (candidates.size === 0) return same;
  const { client } = there.directory;
  const response = await client.open(addressOf(there.directory, '', ['archive']), {});
  for await (const { type, parts, content } of readTar(response.body(), 'latin1')) {
    const path = parts.join('/');
    if (type !== 'file' || !candidates.has(path)) continue;
    const digest = createHash('sha256');
    for await (const part of content) digest.update(part);
    if (digest.digest().equals(localDigest(here.local, path))) same.add(path);
  }
  return same;
}

function localDigest(local: LocalTree, path: string): Buffer {
  const digest = createHash('sha256');
  const buffer = Buffer.allocUnsafe(readBytes);
  const fd = local.openFile(path);
  try {
    for (let got = -1; got !== 0; ) {
      got = readSync(fd, buffer, 0, buffer.length, null);
      digest.update(buffer.subarray(0, got));
    }
  } finally {
    closeSync(fd);
  }
  return digest.digest();
}
