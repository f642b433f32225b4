/**
 * Looks into unpacked trees, which are hostile: a path in them may lead anywhere through links, and may name a device or a pipe. So
 * each step is opened by itself, without following, and only regular files are read.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, opendir } from 'node:fs/promises';

const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const fileFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * A regular file for `use`, whose result it gives back; undefined where it is missing, a link, a whiteout, something else than a
 * file, or not readable.
 */
export async function fileBelow<T>(
  root: string,
  path: string,
  use: (file: FileHandle) => Promise<T>,
): Promise<T | undefined> {
  const names = path.split('/');
  const last = names.pop() ?? '';
  return await inDirectory(root, names, async (place) => {
    await using file = await open(`${place}/${last}`, fileFlags);
    return (await file.stat()).isFile() ? await use(file) : undefined;
  });
}

/** At most so many names of a directory; none where it is missing, a link, or not readable. */
export async function namesBelow(root: string, path: string, max: number): Promise<readonly string[]> {
  const found = await inDirectory(root, path.split('/'), async (place) => {
    const names: string[] = [];
    await using directory = await opendir(`${place}/`);
    for await (const entry of directory) {
      if (names.length >= max) break;
      names.push(entry.name);
    }
    return names;
  });
  return found ?? [];
}

async function inDirectory<T>(
  root: string,
  names: readonly string[],
  use: (place: string) => Promise<T>,
): Promise<T | undefined> {
  try {
    await using stack = new AsyncDisposableStack();
    let at = stack.use(await open(root, directoryFlags));
    for (const name of names) at = stack.use(await open(`/proc/self/fd/${at.fd}/${name}`, directoryFlags));
    return await use(`/proc/self/fd/${at.fd}`);
  } catch {
    return undefined;
  }
}
