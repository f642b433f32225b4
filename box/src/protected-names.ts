/**
 * What is read-only in a repository that a box writes itself: the names that `box apply` holds back, as far as they are there. What is not
 * there yet can't be kept from being made, for something would have to be made on this machine: the command line tells of it afterwards.
 *
 * The host keeps the directories on the way from being renamed (`@squash/policy/paths/compile`).
 */
import { join, relative } from 'node:path';
import { heldBack } from '@squash/policy/paths/protected';
import { entriesOf } from './host-paths.ts';
import { BoxRefusal } from './refusal.ts';

/** Directories below the repository that are looked into; 1: itself. */
const depthMax = 3;
/** More is no project that somebody waits for at each start. */
const directoriesMax = 20_000;
const entriesMax = 500_000;
/** Of the 200 rules that a box has. */
const namesMax = 64;

/**
 * Absolute paths, the upper ones first. Links are left out where all are wanted: nothing can be mounted over one.
 * @throws BoxRefusal where all are wanted and they are too many
 */
export function protectedNames(repository: string, wanted: 'all' | 'first' = 'all'): readonly string[] {
  const found: string[] = [];
  let level: readonly string[] = [repository];
  let directories = 0;
  let entriesLeft = entriesMax;
  for (let depth = 0; depth < depthMax && level.length > 0; depth += 1) {
    const next: string[] = [];
    for (const directory of level) {
      directories += 1;
      // Closed to this user, as it is in the box, or gone meanwhile: nothing.
      const entries = entriesOf(directory, entriesLeft) ?? [];
      entriesLeft -= entries.length;
      for (const entry of entries) {
        const path = join(directory, entry.name);
        if (heldBack(relative(repository, path)) !== undefined) {
          if (wanted === 'first' || entry.isFile() || entry.isDirectory()) found.push(path);
        } else if (entry.isDirectory() && entry.name !== 'node_modules') next.push(path);
      }
      const over = tooMany(found.length, directories, entriesLeft);
      if (over !== undefined && wanted === 'first') return found;
      if (over !== undefined)
        throw new BoxRefusal(
          'box_refused',
          `"${repository}" has more than ${over}, which a box that writes it itself is kept from: give it --repo cow`,
        );
    }
    level = next;
  }
  return found;
}

/** A box may have filled it: what is behind a bound is not looked at. */
function tooMany(names: number, directories: number, entriesLeft: number): string | undefined {
  if (names > namesMax) return `${namesMax} protected names`;
  if (directories > directoriesMax) return `${directoriesMax} directories to look for protected names in`;
  return entriesLeft < 0 ? `${entriesMax} files to look for protected names among` : undefined;
}
