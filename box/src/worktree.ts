/**
 * The git directory that a linked worktree needs: `.git` is a file there, and names `<main repository>/.git/worktrees/<name>`.
 *
 * What is in a repository is nobody's word: a file could name another project to have it opened. So the git directory has to name the worktree
 * in turn, and to belong to this user. Git is not asked, as in `repository.ts`.
 */
import { lstatSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { canonical, isDirectory } from './host-paths.ts';

const fileBytesMax = 4_096;

/** Canonical; undefined where it is no worktree, or not to be believed. */
export function worktreeGitDirectory(repository: string, uid: number): string | undefined {
  const pointer = join(repository, '.git');
  const named = readLine(pointer)?.match(/^gitdir: (.+)$/)?.[1];
  if (named === undefined) return undefined;
  const own = canonical(resolve(repository, named));
  if (own === undefined || basename(dirname(own)) !== 'worktrees') return undefined;
  const back = readLine(join(own, 'gitdir'));
  if (back === undefined || canonical(resolve(own, back)) !== pointer) return undefined;
  const main = dirname(dirname(own));
  const isGit = isDirectory(join(main, 'objects')) && isDirectory(join(main, 'refs'));
  return isGit && statSync(main).uid === uid ? main : undefined;
}

function readLine(file: string): string | undefined {
  const stats = lstatSync(file, { throwIfNoEntry: false });
  if (stats?.isFile() !== true || stats.size > fileBytesMax) return undefined;
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch {
    // Closed to this user: git could not read it either.
    return undefined;
  }
}
