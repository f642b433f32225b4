/** Leaves out the shared libraries that no program of a layer needs: most of what Debian's packages bring with an emulator. */
import { posix } from 'node:path';
import { Failure } from '@squash/base/failure';
import { neededLibraries } from './elf.ts';
import { dataOf } from './kernel-source.ts';
import type { PlannedEntry } from './tar/foreign.ts';

/** Where Debian keeps them, and the links to the dynamic linker. */
const libraryFolder = /^usr\/lib(?:64|32|\/[a-z0-9_]+-linux-gnu)(?:\/|$)/;
const linksMax = 8;

/**
 * Of the folders of libraries what the programs need, with what those need in turn, and all of the rest. What a program opens while it
 * runs (`dlopen`) nobody can see beforehand.
 *
 * @throws where a program or a library that is needed is not there
 */
export function withNeededLibraries(
  entries: readonly PlannedEntry[],
  programs: readonly string[],
): readonly PlannedEntry[] {
  const files = new Map(entries.map((entry) => [entry.path, entry]));
  const libraries = new Map(
    [...files.keys()]
      .filter((path) => libraryFolder.test(path))
      .map((path) => [posix.basename(path), path] as const),
  );
  const kept = new Set<string>();
  const keep = (path: string, links = 0): void => {
    if (kept.has(path)) return;
    const entry = files.get(path);
    if (entry === undefined || links > linksMax)
      throw new Failure('preset_wrong', `the sources have no program or library "${path}"`);
    kept.add(path);
    if (entry.type === 'symlink') {
      keep(targetOf(entry), links + 1);
      return;
    }
    for (const name of neededLibraries(dataOf(entry), path)) {
      const found = libraries.get(posix.basename(name));
      if (found === undefined)
        throw new Failure('preset_wrong', `"${path}" needs "${name}", which the sources do not have`);
      keep(found);
    }
  };
  for (const program of programs) keep(program);
  return entries.filter(({ path }) => kept.has(path) || !libraryFolder.test(path));
}

function targetOf({ path, target }: PlannedEntry): string {
  const to = target.startsWith('/') ? target.slice(1) : posix.normalize(`${posix.dirname(path)}/${target}`);
  // As Debian's links at the root have it.
  return to.replace(/^(lib\d*|bin|sbin)\//, 'usr/$1/');
}
