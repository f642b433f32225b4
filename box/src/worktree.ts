/**
 * Where git keeps what it knows of a repository: in `.git`, or, where that is a file, in the directory that it names. In a linked worktree
 * that is `<main repository>/.git/worktrees/<name>`, and most of it is the main repository's.
 *
 * What is in a repository is nobody's word: a file could name another project to have it opened. So the git directory has to name the worktree
 * in turn, and to belong to this user. Git is not asked, as in `repository.ts`.
 */
import { lstatSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { PathLevel } from '@squash/contract/path-levels';
import { isWithin } from '@squash/policy/paths/levels';
import { isClosed } from './closed.ts';
import { canonical, isDirectory, isEverybodys } from './host-paths.ts';
import { BoxRefusal } from './refusal.ts';

const fileBytesMax = 4_096;

/** Both canonical. */
export interface GitDirectories {
  /** Of this worktree: what is checked out, and the index. */
  readonly own: string;
  /** Of all worktrees: objects, branches, configuration. The same where there is but one. */
  readonly common: string;
}

/** Undefined where it is no repository, or not to be believed. */
export function gitDirectories(repository: string, uid: number): GitDirectories | undefined {
  const pointer = join(repository, '.git');
  const stats = lstatSync(pointer, { throwIfNoEntry: false });
  if (stats?.isDirectory() !== true) return linkedWorktree(repository, uid);
  return stats.uid === uid && isGit(pointer) ? { own: pointer, common: pointer } : undefined;
}

const packedBytesMax = 16_777_216;

/** What is checked out: its branch, and the commit. Undefined where there is none, or where git keeps its branches in another way. */
export function checkedOut({
  own,
  common,
}: GitDirectories): { readonly ref: string; readonly commit: string } | undefined {
  const ref = readText(join(own, 'HEAD'))?.match(/^ref: (refs\/heads\/\S+)$/)?.[1];
  if (ref === undefined || ref.split('/').includes('..')) return undefined;
  const loose = readText(join(common, ref));
  const packed = (): string | undefined =>
    readText(join(common, 'packed-refs'), packedBytesMax)
      ?.split('\n')
      .find((line) => line.endsWith(` ${ref}`));
  const commit = (loose ?? packed())?.match(/^[0-9a-f]{40,64}/)?.[0];
  return commit === undefined ? undefined : { ref, commit };
}

export interface GitGround {
  readonly uid: number;
  readonly home: string;
}

/**
 * What git keeps is the box's own copy, so that it may commit, and the host's stays as it is: also where the box writes the files
 * themselves, for git runs what stands in there. Of a linked worktree's main repository no more than that is opened: the other
 * worktrees' branches are in it, too.
 * @throws box_refused
 */
export function gitRules(
  repository: string,
  level: 'cow' | 'rw' | 'ro',
  { uid, home }: GitGround,
): ReadonlyMap<string, PathLevel> {
  const rules = new Map<string, PathLevel>();
  const worktree = linkedWorktree(repository, uid);
  if (worktree !== undefined && isOpenable(worktree.common, repository, home))
    rules.set(worktree.common, level === 'ro' ? 'ro' : 'cow');
  if (level !== 'rw') return rules;
  const pointer = join(repository, '.git');
  const stats = lstatSync(pointer, { throwIfNoEntry: false });
  if (stats?.isSymbolicLink() === true)
    throw new BoxRefusal(
      'box_refused',
      `"${pointer}" is a link, which a box could exchange that writes "${repository}" itself: give it --repo cow`,
    );
  if (stats?.isDirectory() === true) rules.set(pointer, 'cow');
  if (stats?.isFile() === true) {
    rules.set(pointer, 'ro');
    for (const path of [worktree?.common, namedBy(repository)])
      if (path !== undefined && path !== repository && isWithin(path, repository)) rules.set(path, 'cow');
  }
  return rules;
}

function isOpenable(git: string, repository: string, home: string): boolean {
  if (isClosed(git, home) || isWithin(git, repository)) return false;
  return !isWithin(home, git) && !isEverybodys(git);
}

function linkedWorktree(repository: string, uid: number): GitDirectories | undefined {
  const own = namedBy(repository);
  if (own === undefined || basename(dirname(own)) !== 'worktrees') return undefined;
  const back = readText(join(own, 'gitdir'));
  if (back === undefined || canonical(resolve(own, back)) !== join(repository, '.git')) return undefined;
  const common = dirname(dirname(own));
  return isGit(common) && statSync(common).uid === uid ? { own, common } : undefined;
}

/** By the file that stands in the place of the directory. */
function namedBy(repository: string): string | undefined {
  const named = readText(join(repository, '.git'))?.match(/^gitdir: (.+)$/)?.[1];
  return named === undefined ? undefined : canonical(resolve(repository, named));
}

export function isGit(directory: string): boolean {
  return isDirectory(join(directory, 'objects')) && isDirectory(join(directory, 'refs'));
}

/** Without the end of its last line. */
function readText(file: string, bytesMax = fileBytesMax): string | undefined {
  const stats = lstatSync(file, { throwIfNoEntry: false });
  if (stats?.isFile() !== true || stats.size > bytesMax) return undefined;
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch {
    // Closed to this user: git could not read it either.
    return undefined;
  }
}
