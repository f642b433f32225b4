/**
 * What was written in a microVM, as a layer. No program of the host reads the file system that a guest's kernel writes: the guest's own
 * PID 1 reads it and sends a tar, which the launcher's tool packs, locked down as it is for everything that a sandbox has made.
 */
import { randomBytes } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { isDiskFull } from '@squash/base/errno';
import type { GuestClient } from '../../guest/client.ts';
import { GuestErrno } from '../../guest/guest-error.ts';
import type { LaunchClient } from '../../launch/launch-client.ts';
import type { SavedBounds } from './vmm.ts';

export interface GuestUpperOptions {
  readonly dataDir: string;
  readonly launcher: Pick<LaunchClient, 'packTar' | 'unpack' | 'removeTree'>;
  /** Of the layer. */
  readonly bytesMax: number;
  /** Whether the host's disk has more left than is to stay free. */
  readonly hasRoom: SavedBounds['hasRoom'];
}

/** A file of very many pieces has holes told as zeros, so a tar may be longer than the disk it comes from; a guest that goes on and on is cut off. */
const tarPerLayer = 4;

/** Of a guest that has little of a processor and very many files; one that drips keeps everybody waiting. */
const slowMsMax = 300_000;
const bytesPerMsMin = 128;

/** @param target relative to the data directory @throws guest_failed, disk_full, snapshot_path_too_long, launch_failed */
export async function packGuestUpper(
  guest: GuestClient,
  target: string,
  { dataDir, launcher, bytesMax, hasRoom, giveUp }: GuestUpperOptions & { readonly giveUp: AbortSignal },
): Promise<{ readonly bytes: number; readonly stillMs: number }> {
  const path = join('tmp', `upper-${randomBytes(6).toString('hex')}.tar`);
  const file = join(dataDir, path);
  try {
    const began = performance.now();
    await writeTar(file, guest.files.upper(giveUp), { bytesMax: bytesMax * tarPerLayer, hasRoom });
    const stillMs = performance.now() - began;
    const { bytes } = await launcher.packTar({ path, target, bytesMax }, giveUp);
    return { bytes, stillMs };
  } finally {
    await rm(file, { force: true });
  }
}

/** The same as a tree, which is the caller's to remove: its path, relative to the data directory. @throws as `packGuestUpper` */
export async function unpackGuestUpper(
  guest: GuestClient,
  options: GuestUpperOptions & { readonly giveUp: AbortSignal },
): Promise<string> {
  const { dataDir, launcher, giveUp } = options;
  const path = join('tmp', `now-${randomBytes(6).toString('hex')}`);
  const squashfs = `${path}.squashfs`;
  try {
    await packGuestUpper(guest, squashfs, options);
    const { layerBytesMax: bytesMax, layerInodesMax: inodesMax } = limits;
    await launcher.unpack({ path: squashfs, target: path, bytesMax, inodesMax }, giveUp);
    return path;
  } catch (error) {
    await launcher.removeTree(path);
    throw error;
  } finally {
    await rm(join(dataDir, squashfs), { force: true });
  }
}

async function writeTar(
  path: string,
  tar: AsyncIterable<Buffer>,
  { bytesMax, hasRoom }: Pick<GuestUpperOptions, 'bytesMax' | 'hasRoom'>,
): Promise<void> {
  const file = await open(path, 'ax', 0o600);
  try {
    let bytes = 0;
    const began = performance.now();
    for await (const piece of tar) {
      bytes += piece.length;
      if (performance.now() - began > slowMsMax + bytes / bytesPerMsMin)
        throw new AppError('guest_failed', 'Cannot save the microVM: its guest sends too slowly what it has');
      if (bytes > bytesMax)
        throw new AppError(
          'disk_full',
          `Cannot save the microVM: it holds more than ${bytesMax} bytes, holes included`,
        );
      if (!hasRoom()) throw noRoom();
      // A hole of the guest's disk comes as zeros, and takes no room here either.
      if (piece.equals(Buffer.alloc(piece.length))) await file.truncate(bytes);
      // Whole: a nearly full disk takes a part, and says nothing.
      else await file.appendFile(piece);
    }
  } catch (cause) {
    if (isDiskFull(cause)) throw noRoom(cause);
    const code =
      cause instanceof AppError && cause.cause instanceof GuestErrno ? cause.cause.code : undefined;
    // PID 1 looks before it sends them: what a tree can't be made of again would be saved for nothing.
    if (code === 'EFBIG')
      throw new AppError(
        'disk_full',
        `Cannot save the microVM: its files are longer than ${limits.layerBytesMax} bytes together, holes included`,
        { cause },
      );
    if (code === 'ENAMETOOLONG')
      throw new AppError(
        'snapshot_path_too_long',
        'Cannot save the microVM: a path in it is longer than a tar can tell',
        { cause },
      );
    throw cause;
  } finally {
    await file.close();
  }
}

function noRoom(cause?: unknown): AppError {
  return new AppError('disk_full', 'Cannot save the microVM: no room on the disk', { cause });
}
