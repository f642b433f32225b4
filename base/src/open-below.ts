/**
 * Looks into unpacked trees, which are hostile: a path in them may lead anywhere through links, and may name a device or a pipe. So
 * each step is opened by itself, without following, and only regular files are read.
 *
 * At once: what is looked at is small, and another thread would take ten times as long as the look.
 */
import { closeSync, constants, fstatSync, openSync, opendirSync } from 'node:fs';

const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const fileFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * A regular file for `use`, whose result it gives back; undefined where it is missing, a link, a whiteout, something else than a
 * file, or not readable.
 */
export function fileBelow<T>(
  root: string,
  path: string,
  use: (fd: number, bytes: number) => T | undefined,
): T | undefined {
  const names = path.split('/');
  const last = names.pop() ?? '';
  return inDirectory(root, names, (place) => fileIn(place, last, use));
}

/** The same for each file of a directory, of at most so many names. */
export function filesBelow<T>(
  root: string,
  path: string,
  { max, use }: { readonly max: number; readonly use: (fd: number, bytes: number) => T | undefined },
): readonly T[] {
  const found = inDirectory(root, path.split('/'), (place) =>
    namesIn(place, max).flatMap((name) => fileIn(place, name, use) ?? []),
  );
  return found ?? [];
}

/** At most so many names of a directory; none where it is missing, a link, or not readable. */
export function namesBelow(root: string, path: string, max: number): readonly string[] {
  return inDirectory(root, path.split('/'), (place) => namesIn(place, max)) ?? [];
}

function namesIn(place: string, max: number): readonly string[] {
  const names: string[] = [];
  const directory = opendirSync(`${place}/`);
  try {
    for (
      let entry = directory.readSync();
      entry !== null && names.length < max;
      entry = directory.readSync()
    ) {
      names.push(entry.name);
    }
  } finally {
    directory.closeSync();
  }
  return names;
}

function fileIn<T>(
  place: string,
  name: string,
  use: (fd: number, bytes: number) => T | undefined,
): T | undefined {
  return opened(`${place}/${name}`, fileFlags, (fd) => {
    const facts = fstatSync(fd);
    return facts.isFile() ? use(fd, facts.size) : undefined;
  });
}

function inDirectory<T>(
  place: string,
  [name, ...rest]: readonly string[],
  use: (place: string) => T,
): T | undefined {
  return opened(place, directoryFlags, (fd) =>
    name === undefined ? use(`/proc/self/fd/${fd}`) : inDirectory(`/proc/self/fd/${fd}/${name}`, rest, use),
  );
}

function opened<T>(path: string, flags: number, use: (fd: number) => T): T | undefined {
  let fd: number;
  try {
    fd = openSync(path, flags);
  } catch {
    return undefined;
  }
  try {
    return use(fd);
  } finally {
    closeSync(fd);
  }
}
