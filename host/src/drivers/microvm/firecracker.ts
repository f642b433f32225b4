/**
 * Firecracker: a process that is told by its API what machine it is, and then to start it.
 *
 * There is no jailer: it needs the host's root, and what it makes (a root, ids, a group, a network namespace, a filter of calls) the sandbox
 * around every VMM is already. Firecracker's own filters come on top.
 */
import { existsSync } from 'node:fs';
import { AppError } from '@squash/contract/errors';
import {
  firecrackerMib,
  goingOn,
  goOnMachine,
  partMachine,
  saveMachine,
  startMachine,
} from './firecracker-copies.ts';
import type { FirecrackerProgram } from './firecracker-program.ts';
import { freePagesWord, guestWords, makeUpper, networkWords } from './guest-boot.ts';
import type { VmmAsk, VmmCommand, VmmStart } from './vmm-channel.ts';
import { processorsOf, type Vmm, type VmPlan } from './vmm.ts';

/** New at each start: Firecracker refuses a name that is there. */
const sockets = { guest: '/dev/shm/v.sock', control: '/dev/shm/firecracker.sock' };
const bytesPerMib = 1_048_576;
/** Of the command line on x86. */
const bootBytesMax = 2048;

/** The launcher's (native/launch/network.h); gateway and nameserver are whatever the packet rules take. */
const network = { device: 'tap0', address: '198.18.0.3/24', gateway: '198.18.0.1', nameserver: '198.18.0.1' };

export function firecracker(program: FirecrackerProgram): Vmm {
  return {
    can: { files: false, emulation: false, memoryFile: true },
    // Of its 17 places, besides: upper, vsock, network, random numbers, balloon.
    disksMax: 12,
    // It takes some MiB itself; the rest is page tables and buffers of a guest that does its worst.
    overheadBytes: () => 128 * bytesPerMib,
    check: () => void program.check(),
    program: async () => await program.tree(),
    devices: ({ hasNetwork }) => [
      ...(hasNetwork ? (['tun'] as const) : []),
      // Where there is none Firecracker says so when the machine starts.
      ...(existsSync('/dev/kvm') ? (['kvm'] as const) : []),
    ],
    start: (plan) => started(bootRequests(plan), makeUpper(plan)),
    boot: startMachine,
    copies: {
      still: (plan, lowerBytes) => ({
        ...started(requests(plan, stillWords(plan)), makeUpper(plan)),
        lowerBytes,
      }),
      copy(plan, memory) {
        const { ask, command } = goingOn(plan, memory);
        return started([ask], makeUpper(plan), command);
      },
      fork(plan, { memory, disk }) {
        const { ask, command } = goingOn(plan, memory);
        return started([ask], { how: 'unpack', path: plan.upper.path, argv: [disk] }, command);
      },
      words: (plan) => guestWords(plan).join(' '),
      part: partMachine,
      save: saveMachine,
      goOn: goOnMachine,
      wake: startMachine,
    },
  };
}

function started(asks: readonly VmmAsk[], ...first: readonly VmmCommand[]): VmmStart {
  // At a lower level each request is in the log, which is the console here.
  const words = ['--id', 'vm', '--api-sock', sockets.control, '--level', 'Warning'];
  const vmm: VmmCommand = { how: 'stay', path: sockets.control, argv: ['/usr/bin/firecracker', ...words] };
  return { socket: sockets.guest, control: sockets.control, commands: [...first, vmm], asks };
}

/** Files are opened and the tap is attached as each is answered; only the last one needs KVM. */
export function bootRequests(plan: VmPlan): readonly VmmAsk[] {
  return requests(plan, bootWords(plan));
}

function requests(plan: VmPlan, words: readonly string[]): readonly VmmAsk[] {
  const put = (path: string, body: Readonly<Record<string, unknown>>): VmmAsk => ({
    method: 'PUT',
    path,
    body,
  });
  const drive = (id: string, path: string, isReadOnly: boolean): VmmAsk =>
    put(`/drives/${id}`, {
      drive_id: id,
      path_on_host: path,
      is_root_device: false,
      // Left out it is false, whatever the description of the API says.
      is_read_only: isReadOnly,
      // A guest's flush is to be one, as in the other VMM.
      cache_type: isReadOnly ? 'Unsafe' : 'Writeback',
      io_engine: 'Sync',
    });
  return [
    put('/machine-config', {
      vcpu_count: processorsOf(plan),
      mem_size_mib: firecrackerMib(plan),
    }),
    put('/boot-source', {
      kernel_image_path: plan.kernel,
      initrd_path: plan.initrd,
      boot_args: commandLine(words),
    }),
    ...plan.lowers.map((path, at) => drive(`l${at}`, path, true)),
    drive('upper', plan.upper.path, false),
    ...(plan.hasNetwork
      ? [
          put('/network-interfaces/eth0', {
            iface_id: 'eth0',
            host_dev_name: network.device,
            guest_mac: '06:00:c6:12:00:03',
          }),
        ]
      : []),
    put('/vsock', { guest_cid: 3, uds_path: sockets.guest }),
    put('/entropy', {}),
    put('/balloon', { amount_mib: 0, deflate_on_oom: true, free_page_reporting: true }),
    put('/actions', { action_type: 'InstanceStart' }),
  ];
}

const kernelWords = [
  'console=ttyS0',
  'quiet',
  // The keyboard's controller is how a guest of Firecracker ends its machine.
  'reboot=k',
  'panic=-1',
  'i8042.noaux',
  'i8042.nomux',
  'i8042.dumbkbd',
  freePagesWord,
  // Its drives have no names: they come in the order of the requests.
  'squash.ordered=1',
];

function bootWords(plan: VmPlan): readonly string[] {
  return [
    ...kernelWords,
    `squash.time=${plan.unixSeconds}`,
    ...guestWords(plan),
    ...networkWords(plan, network),
  ];
}

function stillWords(plan: VmPlan): readonly string[] {
  const own = ['squash.copied=1', `squash.lowers=${plan.lowers.length}`];
  return [...kernelWords, ...own, ...networkWords(plan, network)];
}

function commandLine(words: readonly string[]): string {
  const text = words.join(' ');
  if (Buffer.byteLength(text) <= bootBytesMax) return text;
  throw new AppError('launch_failed', `The kernel's command line has more than ${bootBytesMax} bytes`);
}
