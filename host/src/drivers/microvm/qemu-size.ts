/** QEMU's part in giving a machine that runs less memory: its balloon, whose pages are the host's again. The guest fills it, or does not. */
import type { Duplex } from 'node:stream';
import { z } from 'zod';
import { pause } from '@squash/base/pause';
import { Qmp } from './qmp.ts';
import type { MachineSize } from './vmm.ts';

const lookMs = 50;

const kvmSchema = z.object({ enabled: z.boolean() });
const processorsSchema = z.array(z.unknown()).min(1).max(1024);
const memorySchema = z.object({ 'base-memory': z.int() });
const balloonSchema = z.object({ actual: z.int() });

export async function machineSize(control: Duplex, signal: AbortSignal): Promise<MachineSize> {
  const qmp = await Qmp.open(control, signal);
  return {
    accelerator: kvmSchema.parse(await qmp.ask('query-kvm')).enabled ? 'kvm' : 'tcg',
    processors: processorsSchema.parse(await qmp.ask('query-cpus-fast')).length,
    memoryBytes: memorySchema.parse(await qmp.ask('query-memory-size-summary'))['base-memory'],
    leftBytes: await leftBytes(qmp),
  };
}

export async function balloonMachine(control: Duplex, bytes: number, signal: AbortSignal): Promise<void> {
  const qmp = await Qmp.open(control, signal);
  await qmp.ask('balloon', { value: bytes });
  while ((await leftBytes(qmp)) !== bytes) {
    await pause(lookMs, signal);
    signal.throwIfAborted();
  }
}

async function leftBytes(qmp: Qmp): Promise<number> {
  return balloonSchema.parse(await qmp.ask('query-balloon')).actual;
}
