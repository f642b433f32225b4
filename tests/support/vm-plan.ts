/** The plan of a virtual machine, for tests of what a VMM is told. */
import type { VmPlan } from '../../host/src/drivers/microvm/vmm.ts';

/** A machine that is planned and never started, with one layer and a network. */
export function vmPlan(changes: Partial<VmPlan> = {}): VmPlan {
  return {
    accelerator: 'kvm',
    kernel: '/boot/vmlinux',
    initrd: '/drives/initrd',
    lowers: ['/drives/l0'],
    upper: { path: '/disk', bytes: 2 ** 28, inodes: 2 ** 15 },
    mounts: [],
    memoryBytes: 2 ** 28,
    cpuMilli: 1_500,
    hostname: 'box',
    shmBytes: 2 ** 20,
    openFilesMax: 1_024,
    pidsMax: 64,
    hasNetwork: true,
    unixSeconds: 1,
    ...changes,
  };
}
