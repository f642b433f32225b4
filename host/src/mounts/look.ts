/**
 * What lies at a path of the host, for the judge. By `lstat` alone, which is what the daemon may do outside of its own files; it has no
 * more rights than the sandboxes' launcher, so what it can't see is not mounted.
 */
import { lstatSync, type BigIntStats } from 'node:fs';
import { join } from 'node:path';
import { isErrno } from '@squash/base/errno';
import { closedSockets } from '@squash/contract/path-levels';
import { credentialNames, type Found } from './judge.ts';

export interface Looked {
  readonly found: Found;
  /** Which directory that was: device and inode. The launcher mounts no other one. */
  readonly identity: string;
}

/** Precondition: the judge said `look` about this path. */
export function lookAt(path: string): Looked {
  let at = '/';
  let stats: BigIntStats | undefined;
  for (const part of path.split('/').slice(1)) {
    at = join(at, part);
    try {
      stats = lstatSync(at, { bigint: true });
    } catch (error) {
      // Whatever else hinders the look makes it unusable, too.
      return { found: { type: isErrno(error, 'ENOENT') ? 'missing' : 'closed', at }, identity: '' };
    }
    if (stats.isSymbolicLink()) return { found: { type: 'link', at }, identity: '' };
    if (!stats.isDirectory()) return { found: { type: 'other', at }, identity: '' };
  }
  if (stats === undefined) return { found: { type: 'other', at }, identity: '' };
  const { uid, gid, mode, dev, ino } = stats;
  const names = namesIn(path, [...credentialNames, ...closedSockets]);
  return {
    found: { type: 'directory', uid: Number(uid), gid: Number(gid), mode: Number(mode) & 0o7777, names },
    identity: `${dev}:${ino}`,
  };
}

/** Those of them that lie there. */
export function namesIn(path: string, names: readonly string[]): readonly string[] {
  return names.filter((name) => lies(join(path, name)));
}

function lies(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch {
    // Not there, or in a directory that is closed to the sandbox as well.
    return false;
  }
}
