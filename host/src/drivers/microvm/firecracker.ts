/**
 * Firecracker: a process that is told by its API what machine it is, and then to start it.
 *
 * There is no jailer: it needs the host's root, and what it makes (a root, ids, a group, a network namespace, a filter of calls) the sandbox
 * around every VMM is already. Firecracker's own filters come on top.
 */
import type { Duplex } from 'node:stream';
import { existsSync } from 'node:fs';
import { AppError } from '@squash/contract/errors';
import { FirecrackerApi, type ApiRequest } from './firecracker-api.ts';
import type { FirecrackerProgram } from './firecracker-program.ts';
import { freePagesWord, guestWords, makeUpper, networkWords } from './guest-boot.ts';
import type { VmmStart } from './vmm-channel.ts';
import { processorsOf, type Vmm, type VmPlan } from './vmm.ts';

/** New at each start: Firecracker refuses a name that is there. */
const sockets = { guest: '/dev/shm/v.sock', control: '/dev/shm/firecracker.sock' };
const bytesPerMib = 1_048_576;
/** Of the command line on x86. */
const bootBytesMax = 2048;
/** 1.16.0 breaks vsock after a restore, and what is older has no fixes any more. */
const oldest = [1, 16, 1] as const;

/** The launcher's (native/launch/network.h); gateway and nameserver are whatever the packet rules take. */
const network = { device: 'tap0', address: '198.18.0.3/24', gateway: '198.18.0.1', nameserver: '198.18.0.1' };

export function firecracker(program: FirecrackerProgram): Vmm {
  return {
    can: { files: false, emulation: false },
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
    start: firecrackerStart,
    boot: firecrackerBoot,
  };
}

function firecrackerStart(plan: VmPlan): VmmStart {
  // At a lower level each request is in the log, which is the console here.
  const words = ['--id', 'vm', '--api-sock', sockets.control, '--level', 'Warning'];
  return {
    socket: sockets.guest,
    control: sockets.control,
    commands: [
      makeUpper(plan),
      { how: 'stay', path: sockets.control, argv: ['/usr/bin/firecracker', ...words] },
    ],
  };
}

async function firecrackerBoot(
  plan: VmPlan,
  open: () => Promise<Duplex>,
  signal: AbortSignal,
): Promise<void> {
  const api = new FirecrackerApi(open, signal);
  checkVersion(await api.send({ method: 'GET', path: '/version' }));
  for (const asked of bootRequests(plan)) await api.send(asked);
}

/** Files are opened and the tap is attached as each is answered; only the last one needs KVM. */
export function bootRequests(plan: VmPlan): readonly ApiRequest[] {
  const put = (path: string, body: Readonly<Record<string, unknown>>): ApiRequest => ({
    method: 'PUT',
    path,
    body,
  });
  const drive = (id: string, path: string, isReadOnly: boolean): ApiRequest =>
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
      mem_size_mib: Math.floor(plan.memoryBytes / bytesPerMib),
    }),
    put('/boot-source', {
      kernel_image_path: plan.kernel,
      initrd_path: plan.initrd,
      boot_args: bootWords(plan),
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

function bootWords(plan: VmPlan): string {
  const words = [
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
    `squash.time=${plan.unixSeconds}`,
    ...guestWords(plan),
    ...networkWords(plan, network),
  ].join(' ');
  if (Buffer.byteLength(words) <= bootBytesMax) return words;
  throw new AppError('launch_failed', `The kernel's command line has more than ${bootBytesMax} bytes`);
}

/** @throws vm_unavailable */
function checkVersion(document: unknown): void {
  const isTold = typeof document === 'object' && document !== null && 'firecracker_version' in document;
  const text = isTold ? String(document.firecracker_version).slice(0, 40) : 'unknown';
  const found = /^(\d{1,4})\.(\d{1,4})\.(\d{1,4})/.exec(text)?.slice(1).map(Number) ?? [];
  const different = oldest.findIndex((part, at) => found[at] !== part);
  if (different < 0 || (found[different] ?? 0) > (oldest[different] ?? 0)) return;
  throw new AppError(
    'vm_unavailable',
    `The Firecracker of SQUASH_FIRECRACKER is of version ${JSON.stringify(text)}: get ${oldest.join('.')} or newer`,
  );
}
