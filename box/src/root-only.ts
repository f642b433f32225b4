/** What root alone may read of a directory that boxes see: as another user's it would be closed, and root's box is root's. */
import { type Dirent, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Each is a rule, of which a box has 200. */
const pathsMax = 80;

const [readableToAll, searchableToAll] = [0o004, 0o005];

/** Directories as a whole. Where they are very many, the entries of `directory` that they lie in. */
export function rootOnly(directory: string): readonly string[] {
  const found = [...closedBelow(directory)];
  if (found.length <= pathsMax) return found;
  const depth = directory.split('/').length + 1;
  return [...new Set(found.map((path) => path.split('/').slice(0, depth).join('/')))];
}

function* closedBelow(directory: string): Generator<string> {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (isClosedToOthers(path, entry)) yield path;
    else if (entry.isDirectory()) yield* closedBelow(path);
  }
}

function isClosedToOthers(path: string, entry: Dirent): boolean {
  if (!entry.isDirectory() && !entry.isFile()) return false;
  const wanted = entry.isDirectory() ? searchableToAll : readableToAll;
  const mode = lstatSync(path, { throwIfNoEntry: false })?.mode;
  return mode !== undefined && (mode & wanted) !== wanted;
}
