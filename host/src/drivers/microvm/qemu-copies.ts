/**
 * QEMU's part in copying a machine: its migration, to a stream and from a file.
 *
 * A machine with a vsock device can't be migrated: it gets one when it goes on.
 */
import type { Duplex } from 'node:stream';
import { z } from 'zod';
import { AppError } from '@squash/contract/errors';
import { pause } from '@squash/base/pause';
import { Qmp } from './qmp.ts';

const lookMs = 20;
/** QEMU's own choice is 128 MiB a second, meant for networks. */
const bytesPerSecond = 1_099_511_627_776;

const migrationSchema = z.object({ status: z.string().max(64).optional() });
const statusSchema = z.object({ status: z.string().max(64) });

/** It stands still from then on. Resolves when all of it is written to the socket. */
export async function saveMachine(control: Duplex, socket: string, signal: AbortSignal): Promise<void> {
  const qmp = await Qmp.open(control, signal);
  await qmp.ask('stop');
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

/** One that was started with its memory in a file. Resolves when it runs, and has a vsock device. */
export async function wakeMachine(
  control: Duplex,
  device: Readonly<Record<'socket' | 'bus', string>>,
  signal: AbortSignal,
): Promise<void> {
  const qmp = await Qmp.open(control, signal);
  while (statusSchema.parse(await qmp.ask('query-status')).status === 'inmigrate')
    await pause(lookMs, signal);
  await qmp.ask('cont');
  const data = { addr: { type: 'unix', data: { path: device.socket } }, server: false };
  await qmp.ask('chardev-add', { id: 'vsock', backend: { type: 'socket', data } });
  await qmp.ask('device_add', {
    driver: 'vhost-user-vsock-pci',
    chardev: 'vsock',
    bus: device.bus,
    id: 'vsock0',
  });
}
