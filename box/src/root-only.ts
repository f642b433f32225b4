/** What root alone may read of a directory that boxes see: as another user's it would be closed, and root's box is root's. */
import { type Dirent, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isErrno } from '@squash/base/errno';

/** Where installations and administrators put files of root's beside what everybody reads. */
const directories = ['/etc', '/opt', '/usr/local/etc'];
/** Each is a rule, of which a box has 200. */
const pathsMax = 80;

const [readableToAll, writableToAll, searchableToAll] = [0o004, 0o002, 0o005];

/** Directories as a whole. Where they are very many, the entries of those that they lie in. */
export function rootOnly(among: readonly string[] = directories): readonly string[] {
  const found = among.map((directory) => ({ directory, paths: [...closedBelow(directory)] }));
  const isMany = found.reduce((sum, { paths }) => sum + paths.length, 0) > pathsMax;
  return found.flatMap(({ directory, paths }) => {
    if (!isMany) return paths;
    const depth = directory.split('/').length + 1;
    return [...new Set(paths.map((path) => path.split('/').slice(0, depth).join('/')))];
  });
}

function* closedBelow(directory: string): Generator<string> {
  for (const entry of entriesOf(directory)) {
    const path = join(directory, entry.name);
    if (isClosedToOthers(path, entry)) yield path;
    else if (entry.isDirectory()) yield* closedBelow(path);
  }
}

/** One that is not there, or goes meanwhile, has none. */
function entriesOf(directory: string): readonly Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return [];
    throw error;
  }
}

function isClosedToOthers(path: string, entry: Dirent): boolean {
  const wanted = wantedOf(entry);
  if (wanted === undefined) return false;
  const mode = lstatSync(path, { throwIfNoEntry: false })?.mode;
  return mode !== undefined && (mode & wanted) !== wanted;
}

/** What lets others in: of a socket, to whoever listens there. */
function wantedOf(entry: Dirent): number | undefined {
  if (entry.isDirectory()) return searchableToAll;
  if (entry.isSocket()) return writableToAll;
  return entry.isFile() ? readableToAll : undefined;
}
