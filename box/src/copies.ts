/**
 * Single files that are `cow` where nothing around them is the host's: no overlay has a file, so the box begins with a copy of its own.
 * It is written like any file, also by programs that replace it whole, as those do that keep their settings in one file of the home.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { HostPaths } from '@squash/contract/host-root';
import { isClosed } from './closed.ts';
import { isOpened } from '@squash/policy/paths/levels';
import { levelAt } from './levels.ts';

export interface FileCopy {
  readonly path: string;
  /** Permissions alone. */
  readonly mode: number;
  readonly content: Buffer;
}

export interface WithoutCopies {
  readonly paths: HostPaths;
  readonly copies: readonly FileCopy[];
}

/** Larger ones stay with the daemon, which shows them read-only and says so. */
const bytesMax = 16 * 1024 * 1024;

/** What is closed is left to the daemon as well, which refuses it. */
export function takeCopies(paths: HostPaths, home: string): WithoutCopies {
  const rules = new Map(Object.entries(paths));
  const copies = Object.entries(paths).flatMap(([path, level]) => {
    const isAlone = level === 'cow' && path !== '/' && !isOpened(levelAt(rules, dirname(path)));
    const copy = isAlone && !isClosed(path, home) ? readCopy(path) : undefined;
    return copy === undefined ? [] : [copy];
  });
  for (const { path } of copies) rules.delete(path);
  return { paths: Object.fromEntries(rules), copies };
}

function readCopy(path: string): FileCopy | undefined {
  let file: number;
  try {
    // Whatever takes the file's place meanwhile: no link is followed, and no pipe waited for.
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    // It is gone, or not ours to read: the daemon has the words for it.
    return undefined;
  }
  try {
    const found = fstatSync(file);
    if (!found.isFile() || found.size > bytesMax) return undefined;
    return { path, mode: found.mode & 0o777, content: readFileSync(file) };
  } finally {
    closeSync(file);
  }
}
