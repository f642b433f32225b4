/** `sandbox.update`: everything is looked at before anything is changed. Call in the sandbox's turn. */
import { AppError } from '@squash/contract/errors';
import type { SandboxPatch } from '@squash/contract/native-sandbox';
import type { SandboxChange } from '#store/sandboxes.ts';
import { type LimitRest, memoryBytesGiven, type SandboxLimits } from '../drivers/driver.ts';
import type { SandboxEvent } from '../sandbox/event-port.ts';
import { refuseVm } from '../sandbox/backend.ts';
import { refuseHostRoot } from '../sandbox/host-root.ts';
import { mergedLabels } from '../sandbox/labels.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Admission } from './admission.ts';
import { type Ceilings, checkCeilings } from './ceilings.ts';

const mib = 1_048_576;

export interface ChangeRules {
  readonly ceilings: Ceilings;
  readonly admission: Admission;
}

/** @throws ceiling_exceeded, quota_exceeded, host_full, limits_unenforceable, limit_below_use, vm_unsupported, disk_full, launcher_unavailable */
export async function changeSandbox(
  sandbox: Sandbox,
  patch: SandboxPatch,
  { ceilings, admission }: ChangeRules,
): Promise<void> {
  const { row } = sandbox;
  if (patch.on_timeout === 'snapshot') {
    refuseHostRoot(row, 'be saved as a snapshot when its time is over');
  }
  const lifetimeS = patch.lifetime_s === undefined ? undefined : (patch.lifetime_s ?? 0);
  checkCeilings(
    { cpu: patch.cpu, memoryMb: patch.memory_mb, maxLifetimeS: lifetimeS },
    ceilings,
    `change sandbox "${row.id}"`,
  );
  const rest = await changeRow(sandbox, patch, admission);
  if (lifetimeS !== undefined) sandbox.activity.renew();
  sandbox.activity.touch();
  if (patch.policy !== undefined) await sandbox.setPolicy(patch.policy);
  await rest();
}

/** Resolves with what its new limits leave to be done. */
async function changeRow(sandbox: Sandbox, patch: SandboxPatch, admission: Admission): Promise<LimitRest> {
  const { row } = sandbox;
  // Until the row says it: who is changed or made meanwhile counts with it.
  using _growth = admission.grow(sandbox, {
    cpus: (patch.cpu ?? row.cpu) - row.cpu,
    memoryBytes:
      memoryBytesGiven(row.backend, (patch.memory_mb ?? row.memoryMb) * mib) -
      memoryBytesGiven(row.backend, row.memoryMb * mib),
  });
  const lifetimeS = patch.lifetime_s === undefined ? undefined : (patch.lifetime_s ?? 0);
  const labels = patch.labels === undefined ? undefined : mergedLabels(row.labels, patch.labels);
  const { limited, rest } = await limitChange(sandbox, patch);
  const change: SandboxChange = {
    ...(patch.name === undefined ? {} : { name: patch.name }),
    ...(labels === undefined ? {} : { labels }),
    ...(patch.env === undefined ? {} : { env: patch.env }),
    ...(lifetimeS === undefined ? {} : { maxLifetimeS: lifetimeS, lifetimeFromMs: sandbox.nowMs() }),
    ...(patch.idle_timeout_s === undefined ? {} : { idleTimeoutS: patch.idle_timeout_s ?? 0 }),
    ...(patch.on_timeout === undefined ? {} : { onTimeout: patch.on_timeout }),
    ...limited,
  };
  sandbox.change(change, 'transaction', updatedEvent(patch));
  return rest;
}

/** The policy's own change tells of itself. Names only: who wants the values asks for the sandbox. */
function updatedEvent({ policy: _policy, ...patch }: SandboxPatch): SandboxEvent | undefined {
  const changed = Object.keys(patch).join(',');
  return changed === '' ? undefined : { type: 'sandbox.updated', data: { changed } };
}

/** Puts other limits in force where it runs. */
async function limitChange(
  sandbox: Sandbox,
  patch: SandboxPatch,
): Promise<{
  readonly limited: Pick<SandboxChange, 'cpu' | 'memoryMb' | 'limits'>;
  readonly rest: LimitRest;
}> {
  const { world, row, state } = sandbox;
  let rest: LimitRest = () => Promise.resolve();
  const cpu = patch.cpu ?? row.cpu;
  const memoryMb = patch.memory_mb ?? row.memoryMb;
  if (cpu === row.cpu && memoryMb === row.memoryMb) return { limited: {}, rest };
  const isHeld = state.phase === 'ready' || state.phase === 'paused';
  if (state.phase === 'paused') refuseVm(row, 'get other limits while it is paused: resume it first');
  const held: SandboxLimits = {
    ...row.limits,
    cpuMilli: Math.max(1, Math.round(cpu * 1_000)),
    memoryBytesMax: memoryMb * mib,
  };
  const missing = [
    ...(patch.cpu === undefined ? [] : ['cpu_limit']),
    ...(patch.memory_mb === undefined ? [] : ['memory_limit']),
  ];
  // A microVM that runs holds itself to what it started with, and to nothing less.
  const backend = isHeld ? 'chroot' : row.backend;
  const broken = world.driver.warnings({ ...row, backend, limits: held });
  const why = broken.filter(({ code }) => missing.includes(code)).map(({ message }) => message);
  if (why.length > 0) {
    throw new AppError('limits_unenforceable', `Cannot change sandbox "${row.id}": ${why.join('; ')}`);
  }
  if (isHeld) {
    const { memoryBytes } = await world.driver.stats(row.id);
    // A microVM's are its monitor's too: there its guest says what it can do without.
    if (row.backend !== 'vm' && memoryBytes > held.memoryBytesMax) {
      throw new AppError(
        'limit_below_use',
        `Cannot hold sandbox "${row.id}" to ${memoryMb} MiB of memory: it uses ${Math.ceil(memoryBytes / mib)}`,
      );
    }
    rest = await world.driver.limit(row.id, { limits: held, before: row.limits }, sandbox.removal.signal);
  }
  return { limited: { cpu, memoryMb, limits: held }, rest };
}
