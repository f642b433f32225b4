/** What the judge has to know of this installation: its own directories, and the ids of its sandboxes. */
import { readFileSync } from 'node:fs';
import type { Surroundings } from './judge.ts';

/** @param own absolute paths */
export function surroundings(own: readonly string[]): Surroundings {
  const { isSingle, isRoots } = parseIdMap(readFileSync('/proc/self/uid_map', 'utf8'));
  return {
    own,
    ids: isSingle ? { first: 0, count: 1 } : { first: 1, count: 65_536 },
    isMapped: isRoots,
  };
}

/** As `squash-launch enter` makes the daemon's namespace (docs/internals/launch.md). */
export function parseIdMap(text: string): { readonly isSingle: boolean; readonly isRoots: boolean } {
  const rows = text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number));
  const ids = rows.reduce((sum, [, , count = 0]) => sum + count, 0);
  // Only root's has a range for each sandbox behind the common one.
  return { isSingle: ids === 1, isRoots: ids > 131_072 };
}
