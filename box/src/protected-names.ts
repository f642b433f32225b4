/**
 * What is read-only in a repository that a box writes itself: the names that `box apply` holds back, as far as they are there. What is not
 * there yet can't be kept from being made, for something would have to be made on this machine: the command line tells of it afterwards.
 *
 * The host keeps the directories on the way from being renamed (`@squash/policy/paths/compile`).
 */
import { type Dirent, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { heldBack } from '@squash/policy/paths/protected';
import { BoxRefusal } from './refusal.ts';

/** Directories below the repository that are looked into; 1: itself. */
const depthMax = 3;
/** More is no project that somebody waits for at each start. */
const directoriesMax = 20_000;
/** Of the 200 rules that a box has. */
const namesMax = 64;

/**
 * Absolute paths, the upper ones first. Links are left out where all are wanted: nothing can be mounted over one.
 * @throws BoxRefusal where all are wanted and they are too many
 */
export function protectedNames(repository: string, wanted: 'all' | 'first' = 'all'): readonly string[] {
  const found: string[] = [];
  let level: readonly string[] = [repository];
  let count = 0;
  for (let depth = 0; depth < depthMax && level.length > 0; depth += 1) {
    const next: string[] = [];
    for (const directory of level) {
      for (const entry of entriesOf(directory)) {
        const path = join(directory, entry.name);
        if (heldBack(relative(repository, path)) !== undefined) {
          if (wanted === 'first' || entry.isFile() || entry.isDirectory()) found.push(path);
        } else if (entry.isDirectory() && entry.name !== 'node_modules') next.push(path);
      }
    }
    count += level.length;
    const isOver = found.length > namesMax || count > directoriesMax;
    if (isOver && wanted === 'first') break;
    if (isOver)
      throw new BoxRefusal(
        'box_refused',
        `"${repository}" has ${found.length > namesMax ? `more than ${namesMax} protected names` : `more than ${directoriesMax} directories to look for protected names in`}, which a box that writes it itself is kept from: give it --repo cow`,
      );
    level = next;
  }
  return found;
}

function entriesOf(directory: string): readonly Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch {
    // Closed to this user, as it is in the box, or gone meanwhile.
    return [];
  }
}
