/** Where a program of PATH lies in truth. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { canonical, isDirectory } from './host-paths.ts';

/** Canonical. Undefined for a path, which the user wrote himself, and for what PATH does not have. */
export function findProgram(name: string, path: string): string | undefined {
  const found = programInPath(name, path);
  return found === undefined ? undefined : canonical(found);
}

/** The same as PATH names it. */
export function programInPath(name: string, path: string): string | undefined {
  if (name === '' || name.includes('/')) return undefined;
  for (const directory of path.split(delimiter)) {
    if (!directory.startsWith('/')) continue;
    const file = join(directory, name);
    if (isExecutable(file)) return file;
  }
  return undefined;
}

export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return !isDirectory(file);
  } catch {
    // Not here: the next directory may have it.
    return false;
  }
}
