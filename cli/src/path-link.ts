/**
 * How `squash` gets into PATH: by a link that the reader makes with a line that is printed. Nothing is linked for him:
 * what a name in PATH means is his, and the folder may need another user's rights.
 */
import { accessSync, constants, realpathSync } from 'node:fs';
import { join } from 'node:path';

interface Surroundings {
  /** The folders of PATH, in order. */
  readonly path: readonly string[];
  readonly home: string;
  /** The project's starter. */
  readonly starter: string;
}

/** The line that links it, with what else it takes; undefined where PATH leads to this project already. */
export function linkLine({ path, home, starter }: Surroundings): string | undefined {
  if (path.some((folder) => resolved(join(folder, 'squash')) === resolved(starter))) return undefined;
  // Folders for programs that a machine's user has put there himself; others belong to the system's packages.
  const own = [join(home, '.local/bin'), join(home, 'bin'), '/usr/local/bin'];
  const folder = own.find((each) => path.includes(each) && isWritable(each));
  if (folder !== undefined) return `ln -s ${quoted(starter)} ${quoted(folder)}/`;
  if (path.includes('/usr/local/bin')) return `sudo ln -s ${quoted(starter)} /usr/local/bin/`;
  return `alias squash=${quoted(starter)}`;
}

function resolved(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    // Nothing of this name there.
    return undefined;
  }
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    // Another user's, or not there.
    return false;
  }
}

/** For a shell; as it is where it needs no quotes. */
function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
