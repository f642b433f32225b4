/**
 * Where git keeps what it knows of a repository: in `.git`, or, where that is a file, in the directory that it names. In a linked worktree
 * that is `<main repository>/.git/worktrees/<name>`, and most of it is the main repository's.
 *
 * What is in a repository is nobody's word: a file could name another project to have it opened. So the git directory has to name the worktree
 * in turn, and to belong to this user. Git is not asked, as in `repository.ts`.
 */
import { lstatSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import type { PathLevel } from '@squash/contract/path-levels';
import { isWithin } from '@squash/policy/paths/levels';
import { isClosed } from './closed.ts';
import { submodulesOf } from './git/index-links.ts';
import { canonical, isDirectory, isEverybodys } from './host-paths.ts';
import { levelAt } from './levels.ts';
import { protectedNames } from './protected-names.ts';
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
 * themselves, for git runs what stands in there; other names that programs obey are read-only then. Of a linked worktree's main repository no more than that is opened: the other
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
  addWritten(rules, repository, repository);
  for (const path of protectedNames(repository)) if (levelAt(rules, path) !== 'cow') rules.set(path, 'ro');
  return rules;
}

/** Rules of which a box has 200, for the submodules of one tree. */
const submodulesMax = 64;

/**
 * Of a tree that a box writes, and of the submodules in it: `git status` looks into each that has a `.git`, and runs what is set there.
 * @param written what the box writes, of which the tree is a part
 */
function addWritten(rules: Map<string, PathLevel>, tree: string, written: string): void {
  const pointer = join(tree, '.git');
  const stats = lstatSync(pointer, { throwIfNoEntry: false });
  const named = stats?.isFile() === true ? namedBy(tree) : undefined;
  if (stats?.isSymbolicLink() === true || leadsThroughLinks(tree, written))
    throw new BoxRefusal(
      'box_refused',
      `"${pointer}" is a link or names a path with one, which a box could exchange that writes "${written}" itself: give it --repo cow`,
    );
  // A submodule that was never checked out, else no repository.
  if (stats === undefined && tree !== written && isDirectory(tree)) rules.set(tree, 'cow');
  if (stats?.isDirectory() === true) rules.set(pointer, 'cow');
  if (stats?.isFile() === true) {
    rules.set(pointer, 'ro');
    for (const path of [commonOf(named), named])
      if (path !== undefined && path !== written && isWithin(path, written) && levelAt(rules, path) !== 'cow')
        rules.set(path, 'cow');
  }
  const git = stats?.isDirectory() === true ? pointer : named;
  if (git === undefined) return;
  const submodules = submodulesOf(git, commonOf(git) ?? git);
  if (submodules.length > submodulesMax)
    throw new BoxRefusal(
      'box_refused',
      `"${tree}" has ${submodules.length} submodules, more than can be kept as they are: give it --repo cow`,
    );
  for (const name of submodules) {
    const path = join(tree, name);
    // Git takes no such name either.
    if (path === tree || !isWithin(path, tree)) continue;
    if (canonical(path) !== path || !isDirectory(path))
      throw new BoxRefusal(
        'box_refused',
        `"${path}" is a submodule’s and no directory: a box that writes "${written}" itself could lay a repository there; make it, or give --repo cow`,
      );
    addWritten(rules, path, written);
  }
}

/** Of a linked worktree's git directory. */
function commonOf(own: string | undefined): string | undefined {
  return own !== undefined && basename(dirname(own)) === 'worktrees' ? dirname(dirname(own)) : undefined;
}

/** Whether what the file names is reached by a name that the box could make a link, or exchange for what it leads to. */
function leadsThroughLinks(tree: string, written: string): boolean {
  const text = pointerText(tree);
  if (text === undefined) return false;
  const parts = text.split('/').filter((part) => part !== '' && part !== '.');
  const below = isAbsolute(text) ? 0 : parts.findIndex((part) => part !== '..');
  // `x/..` is wherever x leads.
  if (below !== -1 && parts.slice(below).includes('..')) return true;
  const whole = resolve(tree, text);
  return isWithin(whole, written) && canonical(whole) !== whole;
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
  const named = pointerText(repository);
  return named === undefined ? undefined : canonical(resolve(repository, named));
}

function pointerText(repository: string): string | undefined {
  return readText(join(repository, '.git'))?.match(/^gitdir: (.+)$/)?.[1];
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
