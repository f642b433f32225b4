/** The ids of the daemon's own user namespace, as `squash-launch enter` makes it (docs/internals/launch.md). */
import { readFileSync } from 'node:fs';

export interface IdMap {
  /** There is one id, which sandboxes have too. */
  readonly isSingle: boolean;
  /** Root has started Squash. */
  readonly isRoots: boolean;
}

export function readIdMap(): IdMap {
  const rows = readFileSync('/proc/self/uid_map', 'utf8').trim().split('\n');
  const ids = rows.reduce((sum, row) => sum + Number(row.trim().split(/\s+/)[2]), 0);
  // Only root's has a range for each sandbox behind the common one.
  return { isSingle: ids === 1, isRoots: ids > 131_072 };
}
