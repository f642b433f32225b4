/** What root alone may read of a directory that boxes see: as another user's it would be closed, and root's box is root's. */
import { type Dirent, lstatSync, opendirSync } from 'node:fs';
import { join } from 'node:path';
import { isErrno } from '@squash/base/errno';

/** Where installations and administrators put files of root's beside what everybody reads. */
const directories = ['/etc', '/opt', '/usr/local/etc'];
/** Each is a rule, of which a box has 200. */
const pathsMax = 80;
/** Of each entry of a directory that is not root's alone so many are looked at, the upper ones first: a start waits for it, and an installation may be large. */
const looksMax = 5_000;

const [readableToAll, writableToAll, searchableToAll] = [0o004, 0o002, 0o005];

/** Directories as a whole. Where they are very many, the entries of those that they lie in. */
export function rootOnly(among: readonly string[] = directories): readonly string[] {
  const found = among.map((directory) => ({ directory, paths: closedIn(directory) }));
  const isMany = found.reduce((sum, { paths }) => sum + paths.length, 0) > pathsMax;
  return found.flatMap(({ directory, paths }) => {
    if (!isMany) return paths;
    const depth = directory.split('/').length + 1;
    return [...new Set(paths.map((path) => path.split('/').slice(0, depth).join('/')))];
  });
}

function closedIn(directory: string): readonly string[] {
  const most = directory === '/etc' ? Infinity : looksMax;
  return entriesOf(directory, Infinity).flatMap((entry) => [...closedBelow(directory, entry, most)]);
}

function* closedBelow(directory: string, top: Dirent, most: number): Generator<string> {
  const looked = [{ path: join(directory, top.name), entry: top }];
  // It grows meanwhile.
  for (const { path, entry } of looked) {
    if (isClosedToOthers(path, entry)) yield path;
    else if (entry.isDirectory())
      for (const each of entriesOf(path, most - looked.length))
        looked.push({ path: join(path, each.name), entry: each });
  }
}

function entriesOf(path: string, most: number): readonly Dirent[] {
  const entries: Dirent[] = [];
  unlessGone(() => {
    using directory = opendirSync(path);
    while (entries.length < most) {
      const entry = directory.readSync();
      if (entry === null) break;
      entries.push(entry);
    }
  });
  return entries;
}

function isClosedToOthers(path: string, entry: Dirent): boolean {
  const wanted = wantedOf(entry);
  if (wanted === undefined) return false;
  const mode = unlessGone(() => lstatSync(path).mode);
  return mode !== undefined && (mode & wanted) !== wanted;
}

/** What is not there, or goes meanwhile, or has a longer path than a path may be, as users can make one, is nobody's. */
function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR', 'ENAMETOOLONG')) return undefined;
    throw error;
  }
}

/** What lets others in: of a socket, to whoever listens there. */
function wantedOf(entry: Dirent): number | undefined {
  if (entry.isDirectory()) return searchableToAll;
  if (entry.isSocket()) return writableToAll;
  return entry.isFile() ? readableToAll : undefined;
}
