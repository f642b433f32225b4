/** What a sandbox's start and limits are to a machine, and to the group that its VMM is in. */
import { randomBytes } from 'node:crypto';
import { chmod, rm, truncate, writeFile } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { systemClock } from '@squash/base/clock';
import type { LaunchMount } from '../../launch/launch-fields.ts';
import {
  type DriverWarning,
  memoryBytesGiven,
  type SandboxLimits,
  type StartSpec,
  vmMemoryBytesMin,
} from '../driver.ts';
import type { VmFiles } from './vm-module.ts';
import type { Accelerator, Vmm, VmPlan } from './vmm.ts';

/** One that is to be started. */
export interface PlannedVm {
  readonly spec: StartSpec;
  readonly module: VmFiles;
  /** A tree over the module's root. */
  readonly program: string | undefined;
  readonly drives: readonly LaunchMount[];
  readonly plan: VmPlan;
  readonly signal: AbortSignal | undefined;
}

const bytesPerMib = 1_048_576;
const savedWholeBytesMax = 8192 * bytesPerMib;
/** Held by the guest: its memory and its disk have a size, its processes are in a group of its own kernel. */
const ownLimits: ReadonlySet<string> = new Set(['upper_limit', 'memory_limit', 'pids_limit']);
/** Beside the disk: the file system's own tables, and what a VMM writes. */
const upperSlackBytes = 64 * bytesPerMib;

/** The guest's disk, in the VMM's root. */
export const upperFile = '/disk';

export function guestMemoryBytes({ memoryBytesMax }: SandboxLimits): number {
  return memoryBytesGiven('vm', memoryBytesMax);
}

/** @param found of a sandbox of the other kind with these limits */
export function vmWarnings(
  found: readonly DriverWarning[],
  { memoryBytesMax }: SandboxLimits,
): readonly DriverWarning[] {
  const own = found.filter(({ code }) => !ownLimits.has(code));
  if (memoryBytesMax >= vmMemoryBytesMin) return own;
  const [least, asked] = [vmMemoryBytesMin, memoryBytesMax].map((bytes) => Math.round(bytes / bytesPerMib));
  const message = `a microVM has ${least} MiB of memory at least: this one has that, and not ${asked}`;
  return [...own, { code: 'memory_minimum', message }];
}

/** @throws vm_unsupported where no machine as large as it fits into this one */
export function planOf(
  spec: StartSpec,
  drives: readonly LaunchMount[],
  host: Pick<VmPlan, 'accelerator' | 'hasNetwork'>,
): VmPlan {
  const { limits } = spec;
  const [asked, there] = [guestMemoryBytes(limits), totalmem()].map((bytes) =>
    Math.round(bytes / bytesPerMib),
  );
  if (guestMemoryBytes(limits) > totalmem())
    throw new AppError(
      'vm_unsupported',
      `A microVM can not have ${asked} MiB of memory: this machine has ${there}`,
    );
  return {
    ...host,
    kernel: '/boot/vmlinux',
    initrd: '/drives/initrd',
    lowers: drives.map(({ target }) => target),
    upper: { path: upperFile, bytes: limits.upperBytesMax, inodes: limits.upperInodesMax },
    mounts: spec.mounts,
    memoryBytes: guestMemoryBytes(limits),
    cpuMilli: limits.cpuMilli,
    hostname: spec.hostname,
    shmBytes: limits.shmBytesMax,
    openFilesMax: limits.openFilesMax,
    pidsMax: limits.pidsMax,
    isRead: spec.isRead === true,
    unixSeconds: Math.floor(systemClock.wallMs() / 1000),
  };
}

/** Of the group that the VMM is in: the guest's memory is a part of it. */
export function vmmLimits(
  limits: SandboxLimits,
  { can, overheadBytes }: Pick<Vmm, 'can' | 'overheadBytes'>,
  accelerator: Accelerator,
): SandboxLimits {
  const memoryBytes = guestMemoryBytes(limits);
  const { upperBytesMax: diskBytes } = limits;
  // Also where no VMM writes it the guest's memory is a file by whose size a process can be held.
  const written = can.memoryFile ? diskBytes + memoryBytes : Math.max(diskBytes, memoryBytes);
  return {
    ...limits,
    memoryBytesMax: memoryBytes + overheadBytes(accelerator),
    upperBytesMax: written + upperSlackBytes,
  };
}

/** Whether one of its kind is saved for others: a monitor that writes all of a larger memory takes longer than boots do. */
export function isWorthSaving({ memoryBytes }: VmPlan, { can }: Pick<Vmm, 'can'>): boolean {
  return !can.memoryFile || memoryBytes <= savedWholeBytesMax;
}

export function image(source: string, target: string): LaunchMount {
  return { mode: 'ro', kind: 'file', identity: '-', source, target };
}

/** With disks in the places of its own that are as large, and empty. They are gone when `work` ends. */
export async function withEmptyDrives(
  vm: PlannedVm,
  { dataDir, bytes }: { readonly dataDir: string; readonly bytes: readonly number[] },
  work: (vm: PlannedVm) => Promise<void>,
): Promise<void> {
  const names = bytes.map(() => `tmp/empty-${randomBytes(6).toString('hex')}`);
  try {
    for (const [at, name] of names.entries()) {
      await writeFile(join(dataDir, name), '', { flag: 'wx' });
      await truncate(join(dataDir, name), bytes[at]);
      // The VMM is not the daemon's id.
      await chmod(join(dataDir, name), 0o644);
    }
    const drives = vm.drives.map((drive, at) => image(names[at] ?? drive.source, drive.target));
    await work({ ...vm, drives });
  } finally {
    await Promise.all(names.map((name) => rm(join(dataDir, name), { force: true })));
  }
}
