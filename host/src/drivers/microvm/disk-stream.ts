/**
 * A file of a VMM's root as `squash-vmm` tells it (`native/vmm/disk.h`), unpacked into a file of the daemon's. Who has taken the VMM over
 * may tell anything: nothing is written but within what the caller allows, and what is empty takes no room.
 */
import type { FileHandle } from 'node:fs/promises';
import { AppError } from '@squash/contract/errors';
import { checkSaved } from './vm-copy.ts';
import type { SavedBounds } from './vmm.ts';

const pieceBytesMax = 262_144;
const pageBytes = 4096;
const emptyPage = Buffer.alloc(pageBytes);

/** Writes it to `file` from the byte `at` on, which has nothing there yet. Resolves with its size, in bytes. @throws guest_failed, disk_full */
export async function unpackDisk(
  stream: AsyncIterable<Buffer>,
  { file, at }: { readonly file: FileHandle; readonly at: number },
  bounds: SavedBounds,
): Promise<number> {
  const pieces = new Pieces(stream);
  const size = await pieces.number();
  checkSaved(size, bounds);
  for (let end = 0; ; ) {
    const offset = await pieces.number();
    const length = await pieces.number();
    if (offset < end || offset + length > size) throw unknown('a piece is not where one can be');
    end = offset + length;
    if (length === 0) break;
    for (let from = offset; from < end; ) {
      const piece = await pieces.exactly(Math.min(pieceBytesMax, end - from));
      checkSaved(size, bounds);
      await writeFilled(file, piece, at + from);
      from += piece.length;
    }
  }
  await file.truncate(at + size);
  return size;
}

async function writeFilled(file: FileHandle, piece: Buffer, at: number): Promise<void> {
  const isEmpty = (from: number): boolean => {
    const page = piece.subarray(from, from + pageBytes);
    return page.equals(page.length === pageBytes ? emptyPage : emptyPage.subarray(0, page.length));
  };
  for (let from = 0; from < piece.length; ) {
    let end = from;
    while (end < piece.length && !isEmpty(end)) end += pageBytes;
    const filled = piece.subarray(from, end);
    for (let done = 0; done < filled.length; ) {
      const { bytesWritten } = await file.write(filled, done, filled.length - done, at + from + done);
      done += bytesWritten;
    }
    from = end + pageBytes;
  }
}

/** What comes, in pieces of the sizes that are asked for. */
class Pieces {
  readonly #source: AsyncIterator<Buffer>;
  #held: Buffer[] = [];
  #heldBytes = 0;

  constructor(stream: AsyncIterable<Buffer>) {
    this.#source = stream[Symbol.asyncIterator]();
  }

  async number(): Promise<number> {
    const value = (await this.exactly(8)).readBigUInt64LE();
    if (value > Number.MAX_SAFE_INTEGER / 2) throw unknown('a number is too large');
    return Number(value);
  }

  async exactly(bytes: number): Promise<Buffer> {
    while (this.#heldBytes < bytes) {
      const next = await this.#source.next();
      if (next.done === true) throw unknown('it ends in the middle');
      this.#held.push(next.value);
      this.#heldBytes += next.value.length;
    }
    const [first] = this.#held;
    const all = first !== undefined && this.#held.length === 1 ? first : Buffer.concat(this.#held);
    this.#held = [all.subarray(bytes)];
    this.#heldBytes -= bytes;
    return all.subarray(0, bytes);
  }
}

function unknown(why: string): AppError {
  return new AppError('guest_failed', `What squash-vmm tells of a file can't be read: ${why}`);
}
