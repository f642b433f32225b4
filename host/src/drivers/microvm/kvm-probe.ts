/**
 * Whether a guest runs here at all, with this accelerator. A `/dev/kvm` that opens is no proof: in some machines of clouds no guest gets far
 * on it. So one is started in a VMM's sandbox of its own, and has to say its word.
 *
 * Of a daemon that dies meanwhile the sandbox is left, of which no row knows: the next one ends it, and empties `tmp/`.
 */
import { randomBytes, randomInt } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { errorText } from '@squash/base/bug';
import { AppError } from '@squash/contract/errors';
import { sandboxIdSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { LaunchClient } from '../../launch/launch-client.ts';
import type { LaunchStart } from '../../launch/launch-fields.ts';
import type { RunningSandbox, UpperKind } from '../driver.ts';
import { hostsFile, resolvConf } from '../namespace/etc-files.ts';
import { waitsToBeCopied } from './vm-copy.ts';
import type { VmFiles } from './vm-module.ts';
import type { Accelerator, Vmm, VmPlan } from './vmm.ts';
import { ConsoleTail, startVmm } from './vmm-channel.ts';

/** On KVM a kernel has booted in a fraction of a second; a busy machine may need some. */
const wordMsMax = 10_000;
/** Rows of sandboxes are counted up from one. */
const instanceMin = 2 ** 52;
const bytesPerMib = 1_048_576;
const hostname = 'probe';

export interface ProbeHost {
  readonly launcher: Pick<LaunchClient, 'start' | 'stop' | 'removeTree'>;
  readonly upperKind: UpperKind;
  /** To PID 1 of a sandbox. */
  readonly connect: (running: RunningSandbox, signal: AbortSignal) => Promise<Duplex>;
}

export interface Probe {
  readonly vmm: Vmm;
  readonly module: VmFiles;
  readonly accelerator: Accelerator;
  /** How long the guest may be silent; a few seconds unless given. */
  readonly wordMsMax?: number;
}

export function isProbe({ instance }: Pick<RunningSandbox, 'instance'>): boolean {
  return instance >= instanceMin;
}

/**
 * Undefined: the guest has said its word. Else why it has not. Nothing of it is left when it resolves.
 * @throws where nothing could be tried: launcher_unavailable, disk_full, the signal's reason
 */
export async function probeGuest(
  { launcher, upperKind, connect }: ProbeHost,
  probe: Probe,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { copies } = probe.vmm;
  const id = sandboxIdSchema.parse(`${hostname}-${randomBytes(6).toString('hex')}`);
  const running: RunningSandbox = { id, instance: instanceMin + randomInt(2 ** 47), backend: 'vm' };
  const upper = { path: `tmp/${id}`, kind: upperKind };
  const plan = planOf(probe.accelerator);
  const late = new AbortController();
  using console = new ConsoleTail();
  let timer: NodeJS.Timeout | undefined;
  try {
    await launcher.start(startOf(probe, { plan, running, upper }), signal);
    timer = setTimeout(() => late.abort(), probe.wordMsMax ?? wordMsMax);
    const giveUp = AbortSignal.any([signal, late.signal]);
    await console.follow(await connect(running, giveUp), giveUp);
    await startVmm(await connect(running, giveUp), copies.still(plan, []), giveUp);
    await console.until(waitsToBeCopied, giveUp);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    const last = console.lines().at(-1);
    if (late.signal.aborted)
      return `no word of a guest within ${(probe.wordMsMax ?? wordMsMax) / 1000} s${last === undefined ? '' : `, and last: ${last}`}`;
    if (error instanceof AppError && error.code === 'launch_failed') return errorText(error);
    if (error instanceof AppError && error.code === 'guest_failed') return last ?? errorText(error);
    throw error;
  } finally {
    clearTimeout(timer);
    await launcher.stop(id);
    await launcher.removeTree(upper.path);
  }
}

/** The smallest machine that VMs are started from, with nothing of any sandbox. */
function planOf(accelerator: Accelerator): VmPlan {
  return {
    accelerator,
    kernel: '/boot/vmlinux',
    initrd: '/drives/initrd',
    lowers: [],
    upper: { path: '/disk', bytes: bytesPerMib, inodes: 16 },
    mounts: [],
    memoryBytes: 128 * bytesPerMib,
    cpuMilli: 1000,
    hostname,
    shmBytes: bytesPerMib,
    openFilesMax: limits.sandboxOpenFilesMax,
    pidsMax: limits.sandboxPidsMax,
    hasNetwork: false,
    unixSeconds: 0,
  };
}

function startOf(
  { vmm, module }: Probe,
  {
    plan,
    running,
    upper,
  }: {
    readonly plan: VmPlan;
    readonly running: RunningSandbox;
    readonly upper: Pick<LaunchStart['upper'], 'path' | 'kind'>;
  },
): LaunchStart {
  const { shmBytes, openFilesMax, pidsMax, cpuMilli, memoryBytes } = plan;
  return {
    name: running.id,
    instance: running.instance,
    hostname,
    lowers: [module.root],
    // Also the guest's memory is a file by whose size a process can be held.
    upper: { ...upper, bytesMax: 2 * memoryBytes, inodesMax: 1024 },
    makesUpper: true,
    mounts: [{ mode: 'ro', kind: 'file', identity: '-', source: module.initrd, target: plan.initrd }],
    vmm: true,
    vmmDevices: vmm.devices?.(plan) ?? [],
    memoryBytesMax: memoryBytes + vmm.overheadBytes(plan.accelerator),
    cpuMilli,
    pidsMax,
    shmBytesMax: shmBytes,
    openFilesMax,
    hosts: hostsFile(hostname),
    resolvConf: resolvConf(false),
  };
}
