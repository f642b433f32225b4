/**
 * QEMU's `microvm` machine as the commands that squash-vmm runs.
 *
 * On KVM it has the host's own processors, else QEMU emulates one. What is said of KVM here was read in the documents of QEMU and Linux, and
 * is yet to be run on one that starts guests.
 */
import { availableParallelism, cpus } from 'node:os';
import { retryMachine } from './full-disk.ts';
import { freePagesWord, guestWords, makeUpper, networkWords } from './guest-boot.ts';
import { goOnMachine, partMachine, saveMachine, wakeMachine } from './qemu-copies.ts';
import { balloonMachine, machineSize } from './qemu-size.ts';
import { type Accelerator, processorsOf, sharedDir, type Vmm, type VmPlan } from './vmm.ts';
import type { VmmCommand, VmmStart } from './vmm-channel.ts';

/** New at each start: what lies there is the VMM's alone and goes with it. */
const runDir = '/dev/shm';
const sockets = {
  guest: `${runDir}/v.sock`,
  device: `${runDir}/vhost.sock`,
  control: `${runDir}/qmp.sock`,
  files: `${runDir}/files.sock`,
  /** Where squash-vmm takes the guest's memory. */
  memory: `${runDir}/qmp.sock_memory`,
};
const bytesPerMib = 1_048_576;
/** Of the emulator's translated code. QEMU's own choice is a gigabyte. */
const translatedMib = 64;

/** The one place where a device can come and go. */
const vsockBus = 'port0';
const vsockPlace = { socket: sockets.device, bus: vsockBus };
const vsockOptions = [
  ['chardev', `socket,id=vsock,path=${sockets.device}`],
  ['device', `vhost-user-vsock-pci,chardev=vsock,bus=${vsockBus},id=vsock0`],
] as const;

const kernelWords = ['console=ttyS0', 'quiet', 'reboot=t', 'panic=-1', 'pcie_ports=native', freePagesWord];
/** Translated code has none of what a kernel does against a processor's speculation, but all of its cost; and a walk of page tables has a level less. */
const emulatedWords = ['mitigations=off', 'no5lvl'];
const wordsOf: Readonly<Record<Accelerator, readonly string[]>> = {
  // It has the clock of KVM.
  kvm: kernelWords,
  // Under emulation the kernel finds no clock to measure by.
  tcg: [...kernelWords, 'tsc=reliable', 'tsc_early_khz={tsc_khz}', 'no_timer_check', ...emulatedWords],
};

function copiedOption(plan: VmPlan): Option {
  const own = ['squash.copied=1', `squash.lowers=${plan.lowers.length}`, ...networkWords(plan, network)];
  const words = [...wordsOf[plan.accelerator], ...own];
  return ['append', words.join(' ')];
}

export const qemu: Vmm = {
  can: { files: true, emulation: true, memoryFile: false },
  /** Of its 24 places, besides: an upper, a network, and what may come. */
  disksMax: 16,
  /** QEMU, page tables, the vsock device, translated code. */
  overheadBytes: (accelerator) => (128 + (accelerator === 'tcg' ? 2 * translatedMib : 0)) * bytesPerMib,
  devices: ({ accelerator }) => (accelerator === 'kvm' ? ['kvm'] : []),
  start(plan) {
    const files = plan.mounts.length === 0 ? [] : [fileServer()];
    const words = [
      ...wordsOf[plan.accelerator],
      `squash.time=${plan.unixSeconds}`,
      ...guestWords(plan),
      ...networkWords(plan, network),
    ];
    const own: readonly Option[] = [['append', words.join(' ')], ...vsockOptions, ...fileOptions(plan)];
    return started(makeUpper(plan), vsockDevice(), ...files, machine(plan, [...diskOptions(plan), ...own]));
  },
  copies: {
    still(plan, lowerBytes) {
      const sizes = [...lowerBytes, plan.upper.bytes];
      const empty = (at: number): string => `driver=null-co,read-zeroes=on,size=${sizes[at]}`;
      return started(machine(plan, [...diskOptions(plan, empty), copiedOption(plan)]));
    },
    copy: (plan, memory) => started(makeUpper(plan), ...goingOn(plan, memory)),
    fork(plan, { memory, disk }) {
      const unpack: VmmCommand = { how: 'unpack', path: plan.upper.path, argv: [disk] };
      return started(unpack, ...goingOn(plan, memory));
    },
    words: (plan) => guestWords(plan).join(' '),
    part: partMachine,
    save: (connect, file, bounds) => saveMachine({ connect, socket: sockets.memory }, file, bounds),
    goOn: (connect, signal) => goOnMachine(connect, vsockPlace, signal),
    wake: (_start, connect, signal) => wakeMachine(connect, vsockPlace, signal),
  },
  retry: retryMachine,
  sizes: { processors, of: machineSize, balloon: balloonMachine },
};

/** A machine from what `memoryFirst` made of another one. */
function goingOn(plan: VmPlan, memory: string): readonly VmmCommand[] {
  const own: readonly Option[] = [copiedOption(plan), ['incoming', `file:${memory},offset={memory_end}`]];
  const filled = 'memory-backend-file,mem-path=/proc/self/fd/4';
  const machineOf = machine(plan, [...diskOptions(plan), ...own], filled);
  return [vsockDevice(), { how: 'memory', argv: [memory] }, machineOf];
}

/** Emulated ones would take turns on one thread: a second one would make nothing faster. */
function processors(plan: Pick<VmPlan, 'accelerator' | 'cpuMilli'>): number {
  return plan.accelerator === 'kvm' ? Math.min(processorsOf(plan), availableParallelism()) : 1;
}

function started(...commands: readonly VmmCommand[]): VmmStart {
  return { socket: sockets.guest, control: sockets.control, commands };
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

/** A command's option, without its dash, and what follows it. */
type Option = readonly [string, string];

/** @param own what differs between one that boots, one that is to be copied, and a copy @param memory where it lies */
function machine(plan: VmPlan, own: readonly Option[], memory = 'memory-backend-memfd'): VmmCommand {
  const mib = Math.floor(plan.memoryBytes / bytesPerMib);
  const options: readonly Option[] = [
    ['M', 'microvm,pcie=on,memory-backend=mem0,rtc=on'],
    ...processorOptions(plan),
    ['m', `${mib}M`],
    ['display', 'none'],
    ['sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
    // The device beside QEMU reads and writes the guest's memory.
    ['object', `${memory},id=mem0,size=${mib}M,share=on`],
    // Behind SeaBIOS the initrd of an unpacked kernel is copied over the ACPI tables. Unpacking takes a third of an emulated start.
    ['bios', 'qboot.rom'],
    ['kernel', plan.kernel],
    ['initrd', plan.initrd],
    ['device', 'virtio-rng-device'],
    // What the guest has free goes back to the host some two seconds later.
    ['device', 'virtio-balloon-device,free-page-reporting=on'],
    ['device', `pcie-root-port,id=${vsockBus},chassis=1,slot=1`],
    ...(plan.hasNetwork
      ? ([
          ['netdev', `user,id=net0,net=${network.net},host=${network.gateway},ipv6=off`],
          ['device', 'virtio-net-device,netdev=net0,mac=52:54:00:00:00:02'],
        ] as const)
      : []),
    ['chardev', 'stdio,id=console,signal=off'],
    ['serial', 'chardev:console'],
    ['qmp', `unix:${sockets.control},server=on,wait=off`],
    ...own,
  ];
  const flags = ['-nodefaults', '-no-user-config', '-no-reboot'];
  const words = options.flatMap(([name, value]) => [`-${name}`, value]);
  return { how: 'stay', argv: ['/usr/bin/qemu-system-x86_64', ...flags, ...words] };
}

function processorOptions(plan: VmPlan): readonly Option[] {
  if (plan.accelerator === 'kvm')
    return [
      ['accel', 'kvm'],
      // QEMU 7.2 ended on an AMD processor that was asked for this register.
      ['cpu', cpus()[0]?.model.includes('AMD') === true ? 'host,arch-capabilities=off' : 'host'],
      ['smp', String(processors(plan))],
    ];
  // With a thread for each processor code that one writes while another runs it is not always seen (Node ended with "Check failed").
  return [
    ['accel', `tcg,thread=single,tb-size=${translatedMib}`],
    ['cpu', 'max'],
    ['smp', String(processors(plan))],
  ];
}

/** The lowers, topmost first, and the upper. */
function diskOptions(plan: VmPlan, backing?: (at: number) => string): readonly Option[] {
  const lowers = plan.lowers.map((path, at) => ({ name: `l${at}`, path, mode: 'readonly=on' }));
  // Where the host has no room the machine stands still: `full-disk.ts`.
  const mode = 'cache=writeback,discard=unmap,detect-zeroes=unmap,werror=enospc';
  return [...lowers, { name: 'upper', path: plan.upper.path, mode }].flatMap(({ name, path, mode }, at) => [
    ['drive', `id=${name},${backing?.(at) ?? `file=${path},format=raw`},if=none,${mode}`] as const,
    ['device', `virtio-blk-device,drive=${name},serial=${name}`] as const,
  ]);
}

function fileOptions({ mounts }: VmPlan): readonly Option[] {
  if (mounts.length === 0) return [];
  return [
    ['chardev', `socket,id=files,path=${sockets.files}`],
    ['device', 'vhost-user-fs-device,chardev=files,tag=mounts'],
  ];
}

/** Of QEMU's own user-mode network, whose sockets are the sandbox's: they go where the sandbox's packets go. */
const network = {
  net: '10.0.2.0/24',
  gateway: '10.0.2.2',
  address: '10.0.2.15/24',
  nameserver: '198.18.0.1',
};
