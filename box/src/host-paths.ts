/**
 * Paths of this machine as rules name them: canonical, with no link on the way. The daemon judges and opens them again by itself; what is
 * done here is only that a person may write `~/x`, `../y` and links.
 */
import { type Dirent, lstatSync, opendirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { errnoOf } from './policy-problem.ts';

/** Undefined where nothing is there, or where it can't be reached. */
export function canonical(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    // Missing, a link that leads nowhere, or closed to this user: in each case there is nothing to be opened.
    return undefined;
  }
}

/** The same for a path that need not be there: what exists of it is canonical, the rest as it is written. */
export function canonicalOfMissing(path: string): string {
  const found = canonical(path);
  if (found !== undefined) return found;
  const parent = dirname(path);
  return parent === path ? path : join(canonicalOfMissing(parent), basename(path));
}

/** `~`, and relative to where the user is. */
export function absolutePath(word: string, place: { readonly cwd: string; readonly home: string }): string {
  if (word === '~' || word.startsWith('~/')) return resolve(place.home, `.${word.slice(1)}`);
  return resolve(place.cwd, word);
}

/**
 * The first link on the way to a path, where the path is written with one: `/home` of `/home/u` where `/home` leads to `/data/home`. It is
 * made inside as well, so that the path as it is written leads there, too.
 */
export function firstLink(path: string): string | undefined {
  const parts = path.split('/').filter((part) => part !== '');
  let at = '';
  for (const part of parts) {
    at = `${at}/${part}`;
    try {
      if (lstatSync(at).isSymbolicLink()) return at;
    } catch {
      // Nothing further is there.
      return undefined;
    }
  }
  return undefined;
}

/** Everybody may write there. */
export function isEverybodys(path: string): boolean {
  const others = 0o002;
  return ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & others) !== 0;
}

export function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** One more than `max` where there are more. Undefined where it is missing or may not be read: a box has no more rights than whoever starts it. */
export function entriesOf(directory: string, max = Number.POSITIVE_INFINITY): readonly Dirent[] | undefined {
  try {
    const entries: Dirent[] = [];
    const open = opendirSync(directory, { bufferSize: 256 });
    try {
      for (let each = open.readSync(); each !== null && entries.length <= max; each = open.readSync())
        entries.push(each);
    } finally {
      open.closeSync();
    }
    return entries;
  } catch (cause) {
    if (errnoOf(cause) === undefined) throw cause;
    return undefined;
  }
}
