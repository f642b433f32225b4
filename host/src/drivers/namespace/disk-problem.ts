/**
 * What is wrong with disks: the data directory's file system at or below the mark under which image uppers get no more
 * room, and uppers whose own file system has met errors.
 */
import type { Problem } from '@squash/contract/daemon';
import { diskRoom } from './host-room.ts';

const mib = 1_048_576;
/** More names help nobody; each of them says it itself. */
const namesMax = 5;

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

/** @param ids of the sandboxes; undefined where there is none */
export function damageProblem(ids: readonly string[]): Problem | undefined {
  if (ids.length === 0) return undefined;
  const names = ids.slice(0, namesMax).map((id) => `"${id}"`);
  const more = ids.length > namesMax ? ` and ${ids.length - namesMax} more` : '';
  return {
    code: 'upper_errors',
    message:
      `the file system of what was written in ${names.join(', ')}${more} has met errors and may take no more writes, as on a disk that fails or was filled by others; ` +
      'once the disk is well "squash snapshot ID rescued" and "squash restore ID rescued" bring what can be read to a new one',
  };
}
