/**
 * `trusted.overlay.*` in a squashfs file becomes `user.overlay.*`, before the file is unpacked.
 *
 * An overlay that root of the host mounts writes its marks as `trusted.*`, which nobody in a user namespace may set: unsquashfs
 * would fail on the first one. A file that has some is copied, and in the copy the table of extended attributes, which is the last
 * of all, is written anew with the other prefix; everything else stays where it is.
 * Layout: linux/Documentation/filesystems/squashfs.rst and fs/squashfs/squashfs_fs.h. Whoever made the file is not trusted: every
 * number is checked, and what is not as it should be is left to unsquashfs to refuse.
 */
import { constants } from 'node:fs';
import { copyFile, type FileHandle, open, rm } from 'node:fs/promises';
import { inflateSync, zstdDecompressSync } from 'node:zlib';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { superblockBytes } from './superblock.ts';

const blockBytesMax = 8_192;
const idBytes = 16;
const none = 0xffff_ffff_ffff_ffffn;
/** The low byte of an attribute's type is its prefix; this bit says that its value is a reference. */
const valueElsewhere = 0x100;
const prefixes = { user: 0, trusted: 1 } as const;
/** Marks that an overlay in a user namespace does not follow: files would be empty, directories not be found. */
const notFollowed: ReadonlySet<string> = new Set(['overlay.redirect', 'overlay.metacopy']);

interface Tables {
  readonly handle: FileHandle;
  readonly compressor: number;
  readonly end: number;
}

/** The attributes of a file, unpacked. */
interface Attributes {
  /** Where its first block lies in the file. */
  readonly start: number;
  /** All entries one behind the other, as blocks of `blockBytesMax`, the last shorter. */
  readonly entries: Buffer;
  /** Where each block lay, relative to the first → which it is. References are by that. */
  readonly blocks: ReadonlyMap<number, number>;
  readonly ids: Buffer;
}

/**
 * Writes the translated file to `copy` where `path` has such marks, and says whether it did.
 * @throws layer_corrupt where it has marks that can't be translated
 */
export async function translateTrustedMarks(path: string, copy: string): Promise<boolean> {
  const translated = translate(await attributesOf(path));
  if (translated === undefined) return false;
  try {
    await copyFile(path, copy, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    const handle = await open(copy, 'r+');
    try {
      // The mode comes with the copy; image tools read it as another user.
      await handle.chmod(0o644);
      await replace(handle, translated);
    } finally {
      await handle.close();
    }
    return true;
  } catch (error) {
    await rm(copy, { force: true });
    throw error;
  }
}

async function attributesOf(path: string): Promise<Attributes | undefined> {
  const handle = await open(path, 'r');
  try {
    const head = await read(handle, 0, superblockBytes);
    const start = head?.readBigUInt64LE(56) ?? none;
    const end = Number(head?.readBigUInt64LE(40) ?? 0n);
    if (head === undefined || start > BigInt(end)) return undefined;
    return await readTables({ handle, compressor: head.readUInt16LE(20), end }, Number(start));
  } catch (error) {
    // A block that can't be unpacked, or by a means that Node does not have: unsquashfs says what is wrong with it.
    if (error instanceof RangeError || (error instanceof Error && 'errno' in error)) return undefined;
    throw error;
  } finally {
    await handle.close();
  }
}

async function readTables(tables: Tables, start: number): Promise<Attributes | undefined> {
  const header = await read(tables.handle, start, 16);
  const count = header?.readUInt32LE(8) ?? 0;
  const first = Number(header?.readBigUInt64LE(0) ?? 0n);
  if (count === 0 || count * idBytes > limits.layerAttributeBytesMax) return undefined;
  const index = await read(tables.handle, start + 16, 8 * Math.ceil((count * idBytes) / blockBytesMax));
  const firstId = Number(index?.readBigUInt64LE(0) ?? 0n);
  const entries = await readBlocks(tables, first, firstId);
  const ids = await readBlocks(tables, firstId, start);
  if (entries === undefined || ids === undefined || ids.bytes.length !== count * idBytes) return undefined;
  return { start: first, entries: entries.bytes, blocks: entries.blocks, ids: ids.bytes };
}

async function readBlocks(
  { handle, compressor, end }: Tables,
  from: number,
  to: number,
): Promise<{ readonly bytes: Buffer; readonly blocks: ReadonlyMap<number, number> } | undefined> {
  if (!(from < to && to <= end && to - from <= limits.layerAttributeBytesMax)) return undefined;
  const packed = await read(handle, from, to - from);
  if (packed === undefined) return undefined;
  const parts: Buffer[] = [];
  const blocks = new Map<number, number>();
  for (let at = 0; at < packed.length; ) {
    const head = packed.readUInt16LE(at);
    const size = head & 0x7fff;
    const data = packed.subarray(at + 2, at + 2 + size);
    const part = (head & 0x8000) === 0 ? unpacked(data, compressor) : data;
    const isLast = at + 2 + size >= packed.length;
    // A reference counts bytes in a block, so all but the last have to be full for the blocks to be one text.
    if (part === undefined || (part.length !== blockBytesMax && !isLast)) return undefined;
    if (parts.length * blockBytesMax > limits.layerAttributeBytesMax) return undefined;
    blocks.set(at, parts.length);
    parts.push(part);
    at += 2 + size;
  }
  return { bytes: Buffer.concat(parts), blocks };
}

function unpacked(data: Buffer, compressor: number): Buffer | undefined {
  const bound = { maxOutputLength: blockBytesMax };
  if (compressor === 1) return inflateSync(data, bound);
  return compressor === 6 ? zstdDecompressSync(data, bound) : undefined;
}

/** What is to stand in the file from `start` on. */
interface Translated {
  readonly start: number;
  readonly bytes: Buffer;
  /** Where in it the header lies that the superblock names. */
  readonly headerAt: number;
}

/** Undefined where there is nothing to translate. @throws layer_corrupt */
function translate(attributes: Attributes | undefined): Translated | undefined {
  try {
    return attributes !== undefined && rename(attributes) ? tableOf(attributes) : undefined;
  } catch (error) {
    // A length or a reference that leads nowhere.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Changes the prefixes in place. False where there is nothing to change. @throws layer_corrupt, RangeError */
function rename({ entries, blocks }: Attributes): boolean {
  let isChanged = false;
  for (let at = 0; at < entries.length; ) {
    const type = entries.readUInt16LE(at);
    const nameBytes = entries.readUInt16LE(at + 2);
    const name = entries.toString('latin1', at + 4, at + 4 + nameBytes);
    const value = at + 4 + nameBytes;
    const valueBytes = entries.readUInt32LE(value);
    if ((type & 0xff) === prefixes.trusted && name.startsWith('overlay.')) {
      if (notFollowed.has(name)) throw notTranslated(name);
      entries.writeUInt16LE((type & ~0xff) | prefixes.user, at);
      isChanged = true;
    }
    if ((type & valueElsewhere) !== 0 && valueBytes === 8) moveReference(entries, value + 4, blocks);
    at = value + 4 + valueBytes;
  }
  return isChanged;
}

function notTranslated(name: string): AppError {
  return new AppError(
    'layer_corrupt',
    `the image has "trusted.${name}", which an overlay in a user namespace does not follow: pack it again from what the overlay shows`,
  );
}

/** In the new table no block is packed, so each lies two bytes and its whole length behind the one before. */
function moveReference(bytes: Buffer, at: number, blocks: ReadonlyMap<number, number>): void {
  const reference = bytes.readBigUInt64LE(at);
  const block = blocks.get(Number(reference >> 16n));
  if (block === undefined) throw new RangeError('a reference to no block');
  const moved = BigInt(block * (blockBytesMax + 2));
  bytes.writeBigUInt64LE((moved << 16n) | (reference & 0xffffn), at);
}

function tableOf({ start, entries, blocks, ids }: Attributes): Translated {
  for (let at = 0; at < ids.length; at += idBytes) moveReference(ids, at, blocks);
  const table = inBlocks(entries);
  const idTable = inBlocks(ids);
  const index = Buffer.alloc(16 + 8 * Math.ceil(ids.length / blockBytesMax));
  index.writeBigUInt64LE(BigInt(start), 0);
  index.writeUInt32LE(ids.length / idBytes, 8);
  for (let block = 0; 16 + 8 * block < index.length; block += 1) {
    index.writeBigUInt64LE(BigInt(start + table.length + block * (blockBytesMax + 2)), 16 + 8 * block);
  }
  const bytes = Buffer.concat([table, idTable, index]);
  return { start, bytes, headerAt: table.length + idTable.length };
}

async function replace(handle: FileHandle, { start, bytes, headerAt }: Translated): Promise<void> {
  await handle.truncate(start);
  await handle.write(bytes, 0, bytes.length, start);
  const field = Buffer.alloc(8);
  field.writeBigUInt64LE(BigInt(start + headerAt));
  await handle.write(field, 0, 8, 56);
  field.writeBigUInt64LE(BigInt(start + bytes.length));
  await handle.write(field, 0, 8, 40);
}

function inBlocks(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += blockBytesMax) {
    const part = bytes.subarray(at, at + blockBytesMax);
    const head = Buffer.alloc(2);
    head.writeUInt16LE(0x8000 | part.length);
    parts.push(head, part);
  }
  return Buffer.concat(parts);
}

/** Undefined where the file does not reach so far. */
async function read(handle: FileHandle, at: number, bytes: number): Promise<Buffer | undefined> {
  const { bytesRead, buffer } = await handle.read(Buffer.alloc(bytes), 0, bytes, at);
  return bytesRead === bytes ? buffer : undefined;
}
