/**
 * A machine saved with its memory, and another that goes on from there.
 *
 * Of one that waits to be copied (`native/boot/keeper.h`) what stands in its memory is the kernel's alone. One that has run is saved with
 * its disk, of the same moment.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, stat, truncate } from 'node:fs/promises';
import { addAbortSignal, type Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import { systemClock } from '@squash/base/clock';
import type { MachineCopies, SavedBounds } from './vmm.ts';
import { renewGuest, streamOfVmm, throughToGuest, type ToVmm, VmmRefusal } from './vmm-channel.ts';

/** What `native/boot/keeper.c` writes to the console. */
export const waitsToBeCopied = 'squash-boot: waits to be copied';
const seedBytes = 64;

/** Writes the memory of a machine that was parted to a new file. @throws guest_failed, disk_full */
export async function saveVm(
  { connect, copies }: { readonly connect: ToVmm; readonly copies: MachineCopies },
  path: string,
  bounds: SavedBounds,
): Promise<void> {
  await withNew(path, (file) => copies.save(connect, file, bounds));
}

/** Writes the disk of a machine that stands still to a new file, as `squash-vmm` tells it. @throws guest_failed, disk_full */
export async function saveDisk(
  connect: ToVmm,
  { disk, path }: { readonly disk: string; readonly path: string },
  bounds: SavedBounds,
): Promise<void> {
  const { giveUp } = bounds;
  const stream = addAbortSignal(giveUp, await streamOfVmm(await connect(giveUp), { disk }, giveUp));
  try {
    await withNew(path, (file) => appendStream(stream, file, bounds));
  } finally {
    stream.destroy();
  }
}

/** Of files that a VM has copies of: what is attached takes room as long as it runs, without a name too. Those of a snapshot have another name. */
export async function emptyCopied(paths: readonly string[]): Promise<void> {
  for (const path of paths) if ((await stat(path)).nlink === 1) await truncate(path);
}

/** A stream to PID 1 of the guest, or to what becomes it, as soon as it takes connections. */
export async function reachGuest(connect: ToVmm, giveUp: AbortSignal): Promise<Duplex> {
  for (;;) {
    try {
      return await throughToGuest(await connect(giveUp), giveUp);
    } catch (error) {
      if (!(error instanceof VmmRefusal)) throw error;
    }
  }
}

/** Makes it one of its own, which no other copy is. Resolves when PID 1 takes connections. @throws guest_failed */
export async function renewVm(guest: Duplex, words: string, giveUp: AbortSignal): Promise<void> {
  const renewed = { seed: randomBytes(seedBytes), wallMs: systemClock.wallMs(), settings: words };
  await renewGuest(guest, renewed, giveUp);
}

/** @throws guest_failed where there is more of it than may be, disk_full */
export async function appendStream(
  stream: AsyncIterable<Buffer>,
  file: FileHandle,
  bounds: SavedBounds,
): Promise<void> {
  let bytes = 0;
  for await (const piece of stream) {
    bytes += piece.length;
    checkSaved(bytes, bounds);
    await file.appendFile(piece);
  }
}

/** @param bytes of what the VMM has told so far */
export function checkSaved(bytes: number, { bytesMax, hasRoom }: SavedBounds): void {
  if (bytes > bytesMax)
    throw new AppError('guest_failed', `The VMM told more than ${bytesMax} bytes of its guest`);
  checkRoom(hasRoom);
}

/** @param bytes that will be needed @throws disk_full */
export function checkRoom(hasRoom: SavedBounds['hasRoom'], bytes?: number): void {
  if (!hasRoom(bytes)) throw new AppError('disk_full', 'No room on the disk for the memory of a microVM');
}

async function withNew(path: string, work: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await work(file);
  } finally {
    await file.close();
  }
}
