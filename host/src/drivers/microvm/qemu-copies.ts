/**
 * QEMU's part in copying a machine: its migration, to a stream and from a file.
 *
 * A machine with a vsock device can't be migrated: it gets one when it goes on. One that has run with it loses it before, for which QEMU
 * presses the button of its slot: the guest's kernel waits five seconds for a second press, and lets go of the device.
 */
import type { FileHandle } from 'node:fs/promises';
import { z } from 'zod';
import { AppError } from '@squash/contract/errors';
import { pause } from '@squash/base/pause';
import { memoryFirst } from './qemu-stream.ts';
import { Qmp } from './qmp.ts';
import { appendStream } from './vm-copy.ts';
import type { SavedBounds } from './vmm.ts';
import { spokenTo, streamOfVmm, type ToVmm } from './vmm-channel.ts';

const lookMs = 5;
const device = 'vsock0';
const connectsMax = 2_000;
/** For a second behind a device's end Linux takes a new one in its slot for noise, and then it would take five more. */
const partedMs = 1_500;
/** QEMU's own choice is 128 MiB a second, meant for networks. */
const bytesPerSecond = 1_099_511_627_776;

const migrationSchema = z.object({ status: z.string().max(64).optional() });
const namesSchema = z.array(z.object({ name: z.string().max(256) })).max(256);
const statusSchema = z.object({ status: z.string().max(64) });
const virtioSchema = z.object({ 'vhost-started': z.boolean() });

export type VsockPlace = Readonly<Record<'socket' | 'bus', string>>;

/** @param socket where squash-vmm takes the guest's memory */
export async function saveMachine(
  { connect, socket }: { readonly connect: ToVmm; readonly socket: string },
  file: FileHandle,
  bounds: SavedBounds,
): Promise<void> {
  // Where one of both fails the other is not waited for to the end of its time.
  const failed = new AbortController();
  const signal = AbortSignal.any([bounds.giveUp, failed.signal]);
  const memory = await streamOfVmm(await connect(signal), 'vmmMemory', signal);
  const end = (): void => void memory.destroy();
  signal.addEventListener('abort', end);
  const told = spokenTo(
    connect,
    { which: 'vmmControl', signal },
    async (control) => await migrate(await Qmp.open(control, signal), socket, signal),
  );
  try {
    await Promise.all([appendStream(memoryFirst(memory), file, bounds), told]);
    signal.throwIfAborted();
  } finally {
    failed.abort();
    signal.removeEventListener('abort', end);
    memory.destroy();
  }
}

/** Resolves when all of it is written to the socket. */
async function migrate(qmp: Qmp, socket: string, signal: AbortSignal): Promise<void> {
  await qmp.ask('migrate-set-parameters', { 'max-bandwidth': bytesPerSecond });
  await qmp.ask('migrate', { uri: `unix:${socket}` });
  for (;;) {
    const { status } = migrationSchema.parse(await qmp.ask('query-migrate'));
    if (status === 'completed') return;
    if (status === 'failed' || status === 'cancelled')
      throw new AppError('guest_failed', 'QEMU did not write the memory of its guest');
    await pause(lookMs, signal);
  }
}

/** One that was started with its memory in a file. Resolves when it runs, and has taken a vsock device. */
export async function wakeMachine(connect: ToVmm, place: VsockPlace, signal: AbortSignal): Promise<void> {
  await withDevice(connect, signal, async (qmp) => {
    while (statusSchema.parse(await qmp.ask('query-status')).status === 'inmigrate')
      await pause(lookMs, signal);
    await qmp.ask('cont');
    await plug(qmp, place, signal);
  });
}

/** The machine's vsock goes, and then it stands still. */
export async function partMachine(connect: ToVmm, signal: AbortSignal): Promise<void> {
  await withDevice(connect, signal, async (qmp) => {
    await unplug(qmp, signal);
    await qmp.ask('stop');
    // One that stands still for want of room stays as it is, and would be told to go on while it is saved (`full-disk.ts`).
    if (statusSchema.parse(await qmp.ask('query-status')).status === 'io-error')
      throw new AppError('disk_full', 'No room on the disk for what the microVM writes');
  });
}

/** One whose vsock is on its way out loses it first: of what is half gone nobody could tell. */
export async function goOnMachine(connect: ToVmm, place: VsockPlace, signal: AbortSignal): Promise<void> {
  await withDevice(connect, signal, async (qmp) => {
    while (statusSchema.parse(await qmp.ask('query-status')).status !== 'running') {
      // Not before a migration has noticed that nobody reads it any more.
      await qmp.ask('cont').catch(() => undefined);
      await pause(lookMs, signal);
    }
    await unplug(qmp, signal);
    await plug(qmp, place, signal);
  });
}

async function withDevice(
  connect: ToVmm,
  signal: AbortSignal,
  work: (qmp: Qmp) => Promise<void>,
): Promise<void> {
  await spokenTo(
    connect,
    { which: 'vmmDevice', signal },
    async (control) => await work(await Qmp.open(control, signal)),
  );
}

async function unplug(qmp: Qmp, signal: AbortSignal): Promise<void> {
  if (await isPlugged(qmp)) {
    // What it says where it has been asked already is no reason to wait less.
    await qmp.ask('device_del', { id: device }).catch(() => undefined);
    while (await isPlugged(qmp)) await pause(lookMs, signal);
    await pause(partedMs, signal);
  }
  // It waits for a new one at the socket when this one has gone.
  await qmp.ask('chardev-remove', { id: 'vsock' }).catch(() => undefined);
}

async function isPlugged(qmp: Qmp): Promise<boolean> {
  const names = namesSchema.parse(await qmp.ask('qom-list', { path: '/machine/peripheral' }));
  return names.some(({ name }) => name === device);
}

/** Resolves when the guest has taken it: before that nobody may be let through to it (`native/vmm/link.h`). */
async function plug(qmp: Qmp, { socket, bus }: VsockPlace, signal: AbortSignal): Promise<void> {
  const data = { addr: { type: 'unix', data: { path: socket } }, server: false };
  const connect = async (): Promise<unknown> =>
    await qmp.ask('chardev-add', { id: 'vsock', backend: { type: 'socket', data } });
  // Whoever served the last one there needs a moment.
  for (let triesLeft = connectsMax; ; triesLeft -= 1) {
    try {
      await connect();
      break;
    } catch (error) {
      if (triesLeft === 0) throw error;
      await pause(lookMs, signal);
    }
  }
  await qmp.ask('device_add', { driver: 'vhost-user-vsock-pci', chardev: 'vsock', bus, id: device });
  while (!(await isTaken(qmp))) await pause(lookMs, signal);
}

async function isTaken(qmp: Qmp): Promise<boolean> {
  const path = `/machine/peripheral/${device}/virtio-backend`;
  return virtioSchema.parse(await qmp.ask('x-query-virtio-status', { path }))['vhost-started'];
}
