/** Whether the data directory's file system is at or below the mark under which image uppers get no more room. */
import { statfsSync } from 'node:fs';
import type { Problem } from '@squash/contract/daemon';
import { lowWater } from '@squash/contract/guest';

const mib = 1_048_576;

/**
 * Undefined where there is room, or where nobody can tell.
 * @param isShort an image gets no more room: what is left is owed to what was accepted already
 */
export function diskProblem(dataDir: string, isShort: boolean): Problem | undefined {
  let facts: ReturnType<typeof statfsSync>;
  try {
    facts = statfsSync(dataDir);
  } catch {
    // Its other users say what is wrong with it.
    return undefined;
  }
  const total = facts.blocks * facts.bsize;
  const free = facts.bavail * facts.bsize;
  const mark = Math.min(
    Math.max((total * lowWater.percent) / 100, lowWater.mibMin * mib),
    lowWater.mibMax * mib,
  );
  if (free >= mark && !isShort) return undefined;
  return {
    code: 'disk_low',
    message:
      `the file system of "${dataDir}" has ${Math.floor(free / mib)} MiB left, and ${Math.ceil(mark / mib)} MiB are to stay free: ` +
      'sandboxes can not write more until there is room: remove sandboxes, snapshots or modules',
  };
}
