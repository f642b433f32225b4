/** QEMU's `microvm` machine as the commands that squash-vmm runs. */
import type { VmmCommand, VmmStart } from './vmm-channel.ts';
import { guestWords, makeUpper } from './guest-boot.ts';
import { sharedDir, type Vmm, type VmPlan } from './vmm.ts';

/** New at each start: what lies there is the VMM's alone and goes with it. */
const runDir = '/dev/shm';
const sockets = {
  guest: `${runDir}/v.sock`,
  device: `${runDir}/vhost.sock`,
  control: `${runDir}/qmp.sock`,
  files: `${runDir}/files.sock`,
};
const bytesPerMib = 1_048_576;
/** Of the emulator's translated code. QEMU's own choice is a gigabyte. */
const translatedMib = 64;

export const qemu: Vmm = {
  can: { files: true },
  /** Of its 24 places, besides: an upper, a network, and what may come. */
  disksMax: 16,
  /** The emulator, its translated code, page tables, the vsock device. */
  overheadBytes: (128 + 2 * translatedMib) * bytesPerMib,
  start: qemuStart,
};

function qemuStart(plan: VmPlan): VmmStart {
  return {
    socket: sockets.guest,
    control: sockets.control,
    commands: [
      makeUpper(plan),
      vsockDevice(),
      ...(plan.mounts.length === 0 ? [] : [fileServer()]),
      machine(plan),
    ],
  };
}

function vsockDevice(): VmmCommand {
  // A guest sends no longer packet then. From 32 KiB on Linux (6.12.42, 6.17) gives them in several pieces, which the device drops.
  const words = [
    '--socket',
    sockets.device,
    '--uds-path',
    sockets.guest,
    '--guest-cid',
    '3',
    '--tx-buffer-size',
    '16384',
  ];
  return { how: 'stay', path: sockets.device, argv: ['/usr/bin/vhost-device-vsock', ...words] };
}

/**
 * Serves volumes and directories of the host to the guest, with its owners: as root of this sandbox it may what root of an ordinary one
 * may there, by the sandbox’s own ids and capabilities, and the filter of calls that it sets itself.
 */
function fileServer(): VmmCommand {
  const words = [
    '--socket-path',
    sockets.files,
    '--shared-dir',
    sharedDir,
    '--sandbox',
    'none',
    '--modcaps=-mknod',
    '--xattr',
    '--log-level',
    'error',
  ];
  return { how: 'files', path: sockets.files, argv: ['/usr/libexec/virtiofsd', ...words] };
}

function machine(plan: VmPlan): VmmCommand {
  const mib = Math.floor(plan.memoryBytes / bytesPerMib);
  const disk = (name: string, path: string, mode: string): [string, string][] => [
    ['drive', `id=${name},file=${path},format=raw,if=none,${mode}`],
    ['device', `virtio-blk-device,drive=${name},serial=${name}`],
  ];
  const options: readonly (readonly [string, string])[] = [
    ['M', 'microvm,pcie=on,memory-backend=mem0,rtc=on'],
    // Emulated processors take turns on one thread: with a thread for each, code that one writes while another runs it is not
    // always seen (Node ended with "Check failed"). So a second one would make nothing faster.
    ['accel', `tcg,thread=single,tb-size=${translatedMib}`],
    ['cpu', 'max'],
    ['smp', '1'],
    ['m', `${mib}M`],
    ['display', 'none'],
    ['sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
    // The device beside QEMU reads and writes the guest's memory.
    ['object', `memory-backend-memfd,id=mem0,size=${mib}M,share=on`],
    // Behind SeaBIOS the initrd of an unpacked kernel is copied over the ACPI tables. Unpacking takes a third of an emulated start.
    ['bios', 'qboot.rom'],
    ['kernel', plan.kernel],
    ['initrd', plan.initrd],
    ['append', kernelWords(plan).join(' ')],
    ...plan.lowers.flatMap((path, at) => disk(`l${at}`, path, 'readonly=on')),
    ...disk('upper', plan.upper.path, 'cache=writeback,discard=unmap,detect-zeroes=unmap'),
    ['device', 'virtio-rng-device'],
    ['device', 'pcie-root-port,id=port0,chassis=1,slot=1'],
    ['chardev', `socket,id=vsock,path=${sockets.device}`],
    ['device', 'vhost-user-vsock-pci,chardev=vsock,bus=port0,id=vsock0'],
    ...(plan.hasNetwork
      ? ([
          ['netdev', `user,id=net0,net=${network.net},host=${network.gateway},ipv6=off`],
          ['device', 'virtio-net-device,netdev=net0,mac=52:54:00:00:00:02'],
        ] as const)
      : []),
    ...(plan.mounts.length === 0
      ? []
      : ([
          ['chardev', `socket,id=files,path=${sockets.files}`],
          ['device', 'vhost-user-fs-device,chardev=files,tag=mounts'],
        ] as const)),
    ['chardev', 'stdio,id=console,signal=off'],
    ['serial', 'chardev:console'],
    ['qmp', `unix:${sockets.control},server=on,wait=off`],
  ];
  const flags = ['-nodefaults', '-no-user-config', '-no-reboot'];
  const words = options.flatMap(([name, value]) => [`-${name}`, value]);
  return { how: 'stay', argv: ['/usr/bin/qemu-system-x86_64', ...flags, ...words] };
}

/** Of QEMU's own user-mode network, whose sockets are the sandbox's: they go where the sandbox's packets go. */
const network = {
  net: '10.0.2.0/24',
  gateway: '10.0.2.2',
  address: '10.0.2.15/24',
  nameserver: '198.18.0.1',
};

function kernelWords(plan: VmPlan): readonly string[] {
  return [
    'console=ttyS0',
    'quiet',
    'reboot=t',
    'panic=-1',
    'pcie_ports=native',
    // Under emulation the kernel finds no clock to measure by.
    'tsc=reliable',
    'tsc_early_khz={tsc_khz}',
    'no_timer_check',
    ...guestWords(plan, network),
  ];
}
