/**
 * Directories of this machine that are held by descriptor. Whoever may write in one, such as a sandbox that has it attached, can put a link in
 * the place of what is in it at any moment: what is opened from a descriptor, name by name and without following links, is what was meant.
 */
import type { NodeParts } from './node-parts.ts';

type Files = NodeParts['fs'];

export function directoryFlags({ constants }: Files): number {
  return constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
}

/** Where descriptors have names, of this one. Not every system has them, and not every runtime's descriptors are the system's. */
export function descriptorsOf(fs: Files, root: number): string | undefined {
  const place = '/proc/self/fd';
  try {
    const [known, found] = [fs.fstatSync(root), fs.statSync(`${place}/${root}`)];
    return known.ino === found.ino && known.dev === found.dev ? place : undefined;
  } catch {
    // There is none.
    return undefined;
  }
}

export interface Held {
  /** What names in it are put behind. */
  readonly place: string;
  /** Undefined: it is held by its path alone, and so is what lies in it. */
  readonly descriptors: string | undefined;
  readonly close: () => void;
}

/** @param path a directory that the caller has named: a link is followed */
export function holdRoot(fs: Files, path: string): Held {
  const byPath = { place: path, descriptors: undefined, close: () => undefined };
  if (!fs.existsSync('/proc/self/fd')) return byPath;
  const fd = fs.openSync(path, directoryFlags(fs) & ~fs.constants.O_NOFOLLOW);
  const descriptors = descriptorsOf(fs, fd);
  if (descriptors !== undefined) return held(fs, fd, descriptors);
  fs.closeSync(fd);
  return byPath;
}

/** @throws where there is a link by now */
export function holdBelow(fs: Files, { place, descriptors }: Held, name: string): Held {
  const path = `${place}/${name}`;
  if (descriptors === undefined) return { place: path, descriptors, close: () => undefined };
  return held(fs, fs.openSync(path, directoryFlags(fs)), descriptors);
}

function held(fs: Files, fd: number, descriptors: string): Held {
  return { place: `${descriptors}/${fd}`, descriptors, close: () => fs.closeSync(fd) };
}

/** All that is in it. @param from a directory's descriptor */
export function removeWithin(fs: Files, descriptors: string, from: number): void {
  for (const name of fs.readdirSync(`${descriptors}/${from}`, { encoding: 'buffer' })) {
    const path = Buffer.concat([Buffer.from(`${descriptors}/${from}/`), name]);
    try {
      if (!fs.lstatSync(path).isDirectory()) {
        fs.unlinkSync(path);
        continue;
      }
      const fd = fs.openSync(path, directoryFlags(fs));
      try {
        removeWithin(fs, descriptors, fd);
      } finally {
        fs.closeSync(fd);
      }
      fs.rmdirSync(path);
    } catch {
      // Somebody else has put something in its place: that is his.
    }
  }
}
