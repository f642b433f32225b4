/**
 * A machine saved with its memory, and another that goes on from there.
 *
 * Of one that waits to be copied (`native/boot/keeper.h`) what stands in its memory is the kernel's alone. One that has run is saved with
 * its disk, of the same moment.
 */
import { randomBytes } from 'node:crypto';
import { open } from 'node:fs/promises';
import { addAbortSignal, type Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import { systemClock } from '@squash/base/clock';
import type { MachineCopies } from './vmm.ts';
import { renewGuest, streamOfVmm, throughToGuest, VmmRefusal } from './vmm-channel.ts';

/** What `native/boot/keeper.c` writes to the console. */
export const waitsToBeCopied = 'squash-boot: waits to be copied';
const seedBytes = 64;

/** A fresh stream to squash-vmm. */
export type ToVmm = (signal: AbortSignal) => Promise<Duplex>;

export interface SavedBounds {
  readonly bytesMax: number;
  /** Whether the host's disk has more left than is to stay free. */
  readonly hasRoom: () => boolean;
}

/** Writes the memory of a machine that waits to be copied to a new file. It stands still afterwards. @throws guest_failed, disk_full */
export async function saveVm(
  { connect, copies }: { readonly connect: ToVmm; readonly copies: MachineCopies },
  file: string,
  { giveUp, ...bounds }: SavedBounds & { readonly giveUp: AbortSignal },
): Promise<void> {
  // Where one of both fails the other is not waited for to the end of its time.
  const failed = new AbortController();
  const signal = AbortSignal.any([giveUp, failed.signal]);
  const memory = await streamOfVmm(await connect(signal), 'vmmMemory', signal);
  const work = async (): Promise<void> => {
    const control = await streamOfVmm(await connect(signal), 'vmmControl', signal);
    try {
      await copies.save(control, signal);
    } finally {
      control.destroy();
    }
  };
  const end = (): void => void memory.destroy();
  signal.addEventListener('abort', end);
  try {
    await Promise.all([writeStream(copies.kept(memory), file, bounds), work()]);
    signal.throwIfAborted();
  } finally {
    failed.abort();
    signal.removeEventListener('abort', end);
    memory.destroy();
  }
}

/** Writes the disk of a machine that stands still to a new file, as `squash-vmm` tells it. @throws guest_failed, disk_full */
export async function saveDisk(
  connect: ToVmm,
  { disk, file }: { readonly disk: string; readonly file: string },
  { giveUp, ...bounds }: SavedBounds & { readonly giveUp: AbortSignal },
): Promise<void> {
  const stream = addAbortSignal(giveUp, await streamOfVmm(await connect(giveUp), { disk }, giveUp));
  try {
    await writeStream(stream, file, bounds);
  } finally {
    stream.destroy();
  }
}

/** Of one that was started with such a file: it goes on, and its guest can be reached as soon as it looks. @throws guest_failed */
export async function wakeVm(connect: ToVmm, copies: MachineCopies, giveUp: AbortSignal): Promise<void> {
  const control = await streamOfVmm(await connect(giveUp), 'vmmDevice', giveUp);
  try {
    await copies.wake(control, giveUp);
  } finally {
    control.destroy();
  }
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

async function writeStream(
  stream: AsyncIterable<Buffer>,
  path: string,
  { bytesMax, hasRoom }: SavedBounds,
): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    let bytes = 0;
    for await (const piece of stream) {
      bytes += piece.length;
      if (bytes > bytesMax)
        throw new AppError('guest_failed', `The VMM told more than ${bytesMax} bytes of its guest`);
      if (!hasRoom()) throw new AppError('disk_full', 'No room on the disk for the memory of a microVM');
      await file.appendFile(piece);
    }
  } finally {
    await file.close();
  }
}
