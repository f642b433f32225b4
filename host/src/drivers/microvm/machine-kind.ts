/**
 * What a saved memory depends on. It may lie for months: another monitor, kernel, processor or disk than it was saved with would at best
 * refuse it, and at worst go on with files that are not where its kernel remembers them.
 */
import { statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { cpus, release as hostRelease } from 'node:os';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import type { MachineKind } from '../driver.ts';
import { digestOf } from './templates.ts';
import type { PlannedVm } from './vm-plan.ts';
import type { MachineCopies } from './vmm.ts';
import type { VmmStart } from './vmm-channel.ts';

/** As they are named to whoever may mend it. */
const namesOf = {
  module: 'VM module or Firecracker (the monitor and the guest’s kernel)',
  release: 'release of Squash',
  disks: 'disks of its layers',
  processor: 'processor or kernel of this machine',
  machine: 'machine (processors, memory, disks, network, KVM)',
} as const;

/** Counts the forms of the file that a memory is saved to (`qemu-stream.ts`). */
const savedForm = 2;

/** Of a squashfs: when it was made, how large it is, where its tables lie. */
const superblockBytes = 96;

type Planned = Pick<PlannedVm, 'module' | 'program' | 'drives' | 'plan'>;

/** Of a machine that waits to be copied, which says all of it but its names. */
export function stillOf({ drives, plan }: Planned, copies: MachineCopies, dataDir: string): VmmStart {
  return copies.still(
    plan,
    drives.map(({ source }) => statSync(join(dataDir, source)).size),
  );
}

export async function machineKind(vm: Planned, copies: MachineCopies, dataDir: string): Promise<MachineKind> {
  const { module, program, drives } = vm;
  return {
    module: digestOf([module.root, program ?? null]),
    release: digestOf([module.initrd, savedForm]),
    disks: digestOf(await Promise.all(drives.map(({ source }) => superblock(join(dataDir, source))))),
    // Firecracker takes what it has saved on the same kernel only.
    processor: digestOf([cpus()[0]?.model ?? null, program === undefined ? null : hostRelease()]),
    machine: digestOf(stillOf(vm, copies, dataDir)),
  };
}

/** @throws vm_unsupported */
export function checkKind(saved: MachineKind, here: MachineKind): void {
  const other = Object.entries(namesOf).find(([part]) => saved[part] !== here[part]);
  if (other === undefined) return;
  throw new AppError(
    'vm_unsupported',
    `The memory was saved with another ${other[1]} than there is now: the files alone can be had, without "memory"`,
  );
}

async function superblock(path: string): Promise<string> {
  const file = await open(path, 'r');
  try {
    const bytes = Buffer.alloc(superblockBytes);
    await file.read(bytes, 0, superblockBytes, 0);
    return bytes.toString('base64');
  } finally {
    await file.close();
  }
}
