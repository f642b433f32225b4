/**
 * Names that stay read-only in what a command may write: those that git, shells, editors and agents obey. What is there is kept; what is
 * not there can't be, for something would have to be made on this machine: such names are told afterwards.
 */
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { entriesOf } from '../host-paths.ts';
import { PolicyProblem } from '../policy-problem.ts';
import { keptNames } from './map.ts';

export interface KeptWish {
  /** Directories below each root that are looked into; 1: the root itself. */
  readonly depth: number;
  readonly allowGitConfig: boolean;
}

/** More is no project, and looking at it would take longer than the command. */
const directoriesMax = 20_000;

/** What is there. @throws PolicyProblem where the tree is too wide */
export function keptBelow(root: string, { depth, allowGitConfig }: KeptWish): readonly string[] {
  const names = keptNames.filter((name) => name !== '.git/config' || !allowGitConfig);
  const found: string[] = [];
  let level: readonly string[] = [root];
  let count = 0;
  for (let at = 0; at < depth && level.length > 0; at += 1) {
    const next: string[] = [];
    for (const directory of level) {
      count += 1;
      if (count > directoriesMax)
        throw new PolicyProblem([
          `${root} has more than ${directoriesMax} directories to look for protected names in: set mandatoryDenySearchDepth to ${Math.max(1, at)}`,
        ]);
      // Closed to this user, as it will be in the box, or gone meanwhile: nothing.
      const entries = entriesOf(directory) ?? [];
      const byName = new Map(entries.map((entry) => [entry.name, entry]));
      for (const name of names) {
        const [first = ''] = name.split('/');
        if (byName.has(first) && isFound(join(directory, name))) found.push(join(directory, name));
      }
      // Of a linked worktree `.git` is a file, which says where git looks.
      if (byName.get('.git')?.isFile() === true) found.push(join(directory, '.git'));
      for (const entry of entries)
        if (entry.isDirectory() && entry.name !== 'node_modules' && entry.name !== '.git')
          next.push(join(directory, entry.name));
    }
    level = next;
  }
  return found;
}

/** Of one directory, the names that are not there. */
export function absentNames(directory: string): readonly string[] {
  return keptNames.map((name) => join(directory, name)).filter((path) => !isFound(path));
}

export function isFound(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // What it would lie in is a file (`.git` of a submodule or a linked worktree), or closed to this user, as it will be in the box.
    return false;
  }
}
