/**
 * The first check of a squashfs file: its superblock, against the file it stands in.
 *
 * It tells "this is no squashfs" from "this one is damaged" before any tool is started, and refuses what no
 * reader of ours takes. It is no proof: what lies behind it is read by unsquashfs, locked down like a sandbox.
 * Layout: linux/Documentation/filesystems/squashfs.rst and fs/squashfs/squashfs_fs.h.
 */
import { limits } from '@squash/contract/limits';

export const superblockBytes = 96;

const magic = 0x7371_7368;
/** Compressors by their number: gzip, lzo, xz, lz4, zstd. (2, lzma, no kernel reads.) */
const compressors = new Set([1, 3, 4, 5, 6]);

/** What is wrong with these first bytes of a file of this size, as the end of a sentence; undefined: nothing. */
export function superblockFault(head: Buffer, fileBytes: number): string | undefined {
  if (head.length < superblockBytes) return `it has ${head.length} bytes, less than a squashfs superblock`;
  if (head.readUInt32LE(0) !== magic) return 'it is no squashfs file';
  const major = head.readUInt16LE(28);
  const minor = head.readUInt16LE(30);
  if (major !== 4 || minor !== 0) return `its squashfs version is ${major}.${minor}, not 4.0`;
  const blockLog = head.readUInt16LE(22);
  if (blockLog < 12 || blockLog > 20 || head.readUInt32LE(12) !== 2 ** blockLog)
    return 'its block size is invalid';
  if (!compressors.has(head.readUInt16LE(20))) return 'its compressor is unknown';
  const inodes = head.readUInt32LE(4);
  if (inodes < 1 || inodes > limits.layerInodesMax) {
    return `it holds ${inodes} inodes; from 1 to ${limits.layerInodesMax} are allowed`;
  }
  const used = head.readBigUInt64LE(40);
  if (used > BigInt(fileBytes)) return `it is cut off: ${fileBytes} of ${used} bytes`;
  // The id, inode and directory tables, which every image has.
  for (const offset of [48, 64, 72]) {
    if (head.readBigUInt64LE(offset) >= used) return 'its tables lie outside of the file';
  }
  return undefined;
}
