/**
 * Firecracker's part in copying a machine: its snapshots.
 *
 * It writes the memory, every page of it, and what else the machine is made of (the *state*) to two files in its own root, from where
 * `squash-vmm` hands them over. The daemon keeps them as one: the memory as it is, in which empty pages are holes, and the state behind it.
 * A copy maps that file, which is attached read-only, and takes a page for itself when it writes to it: however many go on from one
 * file, what they do not change is there once.
 */
import type { FileHandle } from 'node:fs/promises';
import { addAbortSignal, type Duplex } from 'node:stream';
import { z } from 'zod';
import { errorText } from '@squash/base/bug';
import { AppError } from '@squash/contract/errors';
import { unpackDisk } from './disk-stream.ts';
import { checkVersion, FirecrackerApi } from './firecracker-api.ts';
import type { SavedBounds, VmPlan } from './vmm.ts';
import {
  spokenTo,
  streamOfVmm,
  type ToVmm,
  type VmmAsk,
  type VmmCommand,
  type VmmStart,
} from './vmm-channel.ts';

/** In the VMM's root: where it writes both, and where a copy finds the state. */
const written = { memory: '/saved.memory', state: '/saved.state' };
const stateFile = '/dev/shm/state';
/** Firecracker takes no more than 10 MB of it. */
const stateBytesMax = 33_554_432;
const bytesPerMib = 1_048_576;

const stateSchema = z.object({ state: z.string().max(64) });

export function firecrackerMib({ memoryBytes }: Pick<VmPlan, 'memoryBytes'>): number {
  return Math.floor(memoryBytes / bytesPerMib);
}

/** What squash-vmm does before a machine goes on from such a file, and what Firecracker is asked then. @param memory in the VMM's root */
export function goingOn(
  plan: VmPlan,
  memory: string,
): { readonly command: VmmCommand; readonly ask: VmmAsk } {
  const memoryBytes = firecrackerMib(plan) * bytesPerMib;
  const body = {
    snapshot_path: stateFile,
    mem_backend: { backend_type: 'File', backend_path: memory },
    resume_vm: true,
  };
  return {
    command: { how: 'behind', path: stateFile, argv: [memory, String(memoryBytes)] },
    ask: { method: 'PUT', path: '/snapshot/load', body },
  };
}

/** It stands still and is written out at once, which also tells its guest that all connections have ended: see `goOnMachine`. */
export async function partMachine(connect: ToVmm, signal: AbortSignal): Promise<void> {
  await asked(connect, signal, async (api) => {
    await api.send({ method: 'PATCH', path: '/vm', body: { state: 'Paused' } });
    const body = {
      snapshot_type: 'Full',
      snapshot_path: written.state,
      mem_file_path: written.memory,
    };
    await api.send({ method: 'PUT', path: '/snapshot/create', body }).catch((error: unknown) => {
      // Its words for ENOSPC.
      if (!/no space left/i.test(errorText(error))) throw error;
      throw new AppError('disk_full', 'No room on the disk for the memory of a microVM', { cause: error });
    });
  });
}

export async function saveMachine(connect: ToVmm, file: FileHandle, bounds: SavedBounds): Promise<void> {
  const take = async (path: string, at: number, bytesMax: number): Promise<number> => {
    const stream = await taken(connect, path, bounds.giveUp);
    try {
      return await unpackDisk(stream, { file, at }, { ...bounds, bytesMax });
    } finally {
      stream.destroy();
    }
  };
  const memoryBytes = await take(written.memory, 0, bounds.bytesMax);
  await take(written.state, memoryBytes, stateBytesMax);
}

/**
 * 1.16.1 lets nobody through any more where it is told to go on and its guest was not told that all connections have ended (firecracker#6100).
 * So one that runs is not told, and one that stands still is asked for a snapshot first: that tells its guest, also where no file can be opened.
 */
export async function goOnMachine(connect: ToVmm, signal: AbortSignal): Promise<void> {
  await asked(connect, signal, async (api) => {
    if (stateSchema.parse(await api.send({ method: 'GET', path: '/' })).state !== 'Paused') return;
    const nowhere = {
      snapshot_type: 'Full',
      snapshot_path: '/dev/null/state',
      mem_file_path: '/dev/null/memory',
    };
    await api.send({ method: 'PUT', path: '/snapshot/create', body: nowhere }).catch(() => undefined);
    await api.send({ method: 'PATCH', path: '/vm', body: { state: 'Resumed' } });
  });
  await dropWritten(connect, signal);
}

/** Starts a machine, or one that goes on: what it is asked stands in `start`. @throws vm_unavailable, guest_failed */
export async function startMachine(
  { asks = [] }: VmmStart,
  connect: ToVmm,
  signal: AbortSignal,
): Promise<void> {
  // Of an earlier one that ended while it was saved.
  await dropWritten(connect, signal);
  await asked(connect, signal, async (api) => {
    checkVersion(await api.send({ method: 'GET', path: '/version' }));
    for (const ask of asks) await api.send(ask);
  });
}

/** What nobody has fetched would stay as long as its sandbox. */
async function dropWritten(connect: ToVmm, signal: AbortSignal): Promise<void> {
  for (const path of Object.values(written)) {
    const stream = await taken(connect, path, signal).catch(() => undefined);
    stream?.destroy();
  }
}

/** Nobody is let through to the guest meanwhile. */
async function asked(
  connect: ToVmm,
  signal: AbortSignal,
  work: (api: FirecrackerApi) => Promise<void>,
): Promise<void> {
  await spokenTo(connect, { which: 'vmmDevice', signal }, async () => {
    await work(new FirecrackerApi(connect, signal));
  });
}

async function taken(connect: ToVmm, path: string, signal: AbortSignal): Promise<Duplex> {
  return addAbortSignal(signal, await streamOfVmm(await connect(signal), { taken: path }, signal));
}
