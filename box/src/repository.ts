/**
 * Which directory a box is about: the top of the git repository that the user stands in, else where he stands.
 *
 * Found by looking for `.git` alone. Git is not asked: it would read the configuration of a repository that nobody trusts yet.
 */
import { lstatSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isEverybodys } from './host-paths.ts';
import { isWithin } from '@squash/policy/paths/levels';
import { BoxRefusal } from './refusal.ts';

export interface RepositoryFacts {
  /** Canonical. */
  readonly cwd: string;
  readonly home: string;
  readonly uid: number;
}

/** Canonical, where `cwd` is. */
export function findRepository({ cwd, home, uid }: RepositoryFacts): string {
  // A home that is a repository itself, as some keep their dotfiles, is none of the projects in it.
  for (let at = cwd; at !== '/' && at !== home; at = dirname(at)) {
    const owner = statSync(at, { throwIfNoEntry: false })?.uid;
    // Somebody else may have put a `.git` above us, as in /tmp, and would choose what is opened.
    if (owner !== uid) break;
    if (lstatSync(join(at, '.git'), { throwIfNoEntry: false }) !== undefined) return at;
  }
  return cwd;
}

/** @throws box_refused where it is more than one project: who wants that names it */
export function checkRepository(path: string, { home }: Pick<RepositoryFacts, 'home'>): void {
  const remedy = `stand in a project, or name what it may see: --cow ${path}, or --repo none`;
  if (/[\p{Cc}\uFFFD]/u.test(path))
    throw new BoxRefusal(
      'box_refused',
      `${JSON.stringify(path)} has a character in its name that no rule can say (a line break, or bytes that are no UTF-8): rename it, or give --repo none`,
    );
  if (path === '/')
    throw new BoxRefusal(
      'box_refused',
      `"/" would be the repository, which is all of this machine: ${remedy}`,
    );
  if (isWithin(home, path))
    throw new BoxRefusal(
      'box_refused',
      `"${path}" would be the repository, which is your home directory or holds it: ${remedy}`,
    );
  if (isEverybodys(path))
    throw new BoxRefusal(
      'box_refused',
      `"${path}" would be the repository, where everybody may write: ${remedy}`,
    );
}
