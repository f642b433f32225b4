/** What the microVM driver asks of a virtual machine's monitor (VMM). All that is not here is the same for each of them. */
import type { FileHandle } from 'node:fs/promises';
import type { Duplex } from 'node:stream';
import type { MountSpec } from '../driver.ts';
import type { LaunchStart } from '../../launch/launch-fields.ts';
import type { ToVmm, VmmStart } from './vmm-channel.ts';

/** What carries a guest's code out: the processor, or an emulator of one (QEMU's name of it). */
export type Accelerator = 'kvm' | 'tcg';

/** A machine, in the VMM's own terms: paths are those of its root. */
export interface VmPlan {
  readonly accelerator: Accelerator;
  readonly kernel: string;
  readonly initrd: string;
  /** Topmost first. */
  readonly lowers: readonly string[];
  readonly upper: { readonly path: string; readonly bytes: number; readonly inodes: number };
  /** The N-th of them lies at `N` below `sharedDir`. Those that others lie in come first. */
  readonly mounts: readonly { readonly mode: 'ro' | 'rw'; readonly path: string }[];
  readonly memoryBytes: number;
  readonly cpuMilli: number;
  /** The guest is told these by the kernel's command line. */
  readonly hostname: string;
  readonly shmBytes: number;
  readonly openFilesMax: number;
  readonly pidsMax: number;
  /** Its disk is only read: see `StartSpec`. */
  readonly isRead?: boolean;
  readonly hasNetwork: boolean;
  readonly unixSeconds: number;
}

const processorsMax = 32;

/** As many as its share of them, rounded up. */
export function processorsOf({ cpuMilli }: Pick<VmPlan, 'cpuMilli'>): number {
  return Math.min(processorsMax, Math.max(1, Math.ceil(cpuMilli / 1000)));
}

/** In the VMM's root: the module has it. */
export const sharedDir = '/mounts';

/** As the sandbox around the guest has them. */
export function sharedMounts(mounts: readonly MountSpec[]): readonly MountSpec[] {
  return mounts.map((mount, at) => ({ ...mount, path: `${sharedDir}/${at}` }));
}

export interface Vmm {
  readonly can: {
    /** Volumes and directories of the host in the guest. */
    readonly files: boolean;
    /** A guest without KVM. */
    readonly emulation: boolean;
    /** A copy of the guest's memory in its own root, beside the disk. */
    readonly memoryFile: boolean;
  };
  /** How many read-only disks its machine has places for. */
  readonly disksMax: number;
  /** What it takes beside the guest's memory. */
  overheadBytes(accelerator: Accelerator): number;
  /** Before a sandbox is made. @throws vm_unavailable */
  check?(): void;
  /** Of its own, over the module's root: a tree relative to the data directory. @throws vm_unavailable, disk_full */
  program?(): Promise<string>;
  /** Of the host, that it uses. */
  devices?(plan: VmPlan): NonNullable<LaunchStart['vmmDevices']>;
  /** What squash-vmm starts for a machine that boots. */
  start(plan: VmPlan): VmmStart;
  /** Where the machine does not boot by itself then: tells it what `start` asks. @throws vm_unavailable, guest_failed */
  boot?(start: VmmStart, connect: ToVmm, signal: AbortSignal): Promise<void>;
  /** Of one that stands still where the host's disk has no room. @param control a stream of its control socket */
  retry?(control: Duplex, signal: AbortSignal): Promise<void>;
  readonly copies: MachineCopies;
  readonly sizes?: MachineSizes;
}

/** Of a machine that runs, as its VMM says: more than it started with it never has. */
export interface MachineSize {
  readonly accelerator: Accelerator;
  readonly processors: number;
  readonly memoryBytes: number;
  /** What its guest has not given back. */
  readonly leftBytes: number;
}

/** How a machine that runs comes to have less memory, and again all. Streams are those of the VMM's control socket. */
export interface MachineSizes {
  /** That a machine starts with. */
  processors(plan: Pick<VmPlan, 'accelerator' | 'cpuMilli'>): number;
  of(control: Duplex, signal: AbortSignal): Promise<MachineSize>;
  /** Asks the guest to have this much. Resolves when it has, which may be never. */
  balloon(control: Duplex, bytes: number, signal: AbortSignal): Promise<void>;
}

/** In the VMM's root: what another machine has held, as it was saved. */
export interface SavedParts {
  readonly memory: string;
  readonly disk: string;
}

export interface SavedBounds {
  readonly bytesMax: number;
  /** Whether the host's disk has so many bytes, or any, more than is to stay free. */
  readonly hasRoom: (bytes?: number) => boolean;
  readonly giveUp: AbortSignal;
}

/** How a machine is saved with its memory, and goes on as another one. */
export interface MachineCopies {
  /**
   * A machine to be copied: it waits before it reads a disk and hears of anything by which the plans of one kind differ. Its disks are
   * of these sizes.
   */
  still(plan: VmPlan, lowerBytes: readonly number[]): VmmStart;
  /** One that goes on from the file `memory` in the VMM's root, where another of its kind was saved. */
  copy(plan: VmPlan, memory: string): VmmStart;
  /** One that goes on from a machine that ran, on its disk. */
  fork(plan: VmPlan, saved: SavedParts): VmmStart;
  /** What the other was not told: `squash.` words for the guest. */
  words(plan: VmPlan): string;
  /** Takes away from a machine that runs what can't be saved, and holds it still. @throws disk_full */
  part(connect: ToVmm, signal: AbortSignal): Promise<void>;
  /** Writes the memory of one that was parted to a file that is new. @throws guest_failed, disk_full */
  save(connect: ToVmm, file: FileHandle, bounds: SavedBounds): Promise<void>;
  /** Lets it go on, and gives it back what it lacks. Of one in any state between the two. */
  goOn(connect: ToVmm, signal: AbortSignal): Promise<void>;
  /** Of one that was started so from what was saved: resolves when it goes on, and the guest can be reached as soon as it looks. */
  wake(start: VmmStart, connect: ToVmm, signal: AbortSignal): Promise<void>;
}
