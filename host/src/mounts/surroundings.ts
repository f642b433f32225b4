/** What the judge has to know of this installation: its own directories, and the ids of its sandboxes. */
import { readIdMap } from '@squash/base/id-map';
import type { Surroundings } from './judge.ts';

/** @param own absolute paths */
export function surroundings(own: readonly string[]): Surroundings {
  const { isSingle, isRoots } = readIdMap();
  return {
    own,
    ids: isSingle ? { first: 0, count: 1 } : { first: 1, count: 65_536 },
    isMapped: isRoots,
  };
}
