/** Whether the data directory's file system is at or below the mark under which image uppers get no more room. */
import type { Problem } from '@squash/contract/daemon';
import { diskRoom } from './host-room.ts';

const mib = 1_048_576;

/**
 * Undefined where there is room, or where nobody can tell.
 * @param isShort an image gets no more room: what is left is owed to what was accepted already
 */
export function diskProblem(dataDir: string, isShort: boolean): Problem | undefined {
  let disk: ReturnType<typeof diskRoom>;
  try {
    disk = diskRoom(dataDir);
  } catch {
    // Its other users say what is wrong with it.
    return undefined;
  }
  const { availableBytes, markBytes } = disk;
  if (availableBytes >= markBytes && !isShort) return undefined;
  return {
    code: 'disk_low',
    message:
      `the file system of "${dataDir}" has ${Math.floor(availableBytes / mib)} MiB left, and ${Math.ceil(markBytes / mib)} MiB are to stay free: ` +
      'sandboxes can not write more until there is room: remove sandboxes, snapshots or modules',
  };
}
