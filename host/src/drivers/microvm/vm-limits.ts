/**
 * Other limits for a microVM that runs. What it started with it has until it stops: processors and memory. Below that the group that its
 * VMM is in holds it, and of memory its guest has to give back what is taken.
 *
 * What a newcomer would get wrong: a guest is nobody to be trusted. Its memory counts as less only when the group's limit is less, and
 * from then on a guest that takes more than it is left with is ended by that.
 */
import { AppError } from '@squash/contract/errors';
import type { GuestClient } from '../../guest/client.ts';
import { GuestErrno } from '../../guest/guest-error.ts';
import type { LimitChange, LimitRest, SandboxLimits } from '../driver.ts';
import { controlled, type RunningVm } from './vm-fork.ts';
import { guestMemoryBytes, vmmLimits } from './vm-plan.ts';
import type { MachineSize, MachineSizes, Vmm } from './vmm.ts';

/** Of an emulated one on a busy machine. */
const askMsMax = 30_000;
/** A guest that has the memory free gives it back within seconds. */
const giveMsMax = 30_000;
const mib = 1_048_576;

interface LimitedVm extends Pick<RunningVm, 'id' | 'connect'> {
  readonly vmm: Vmm;
  readonly guest: Pick<GuestClient, 'takeMemory'>;
  /** Puts limits in force for the group that the VMM is in. */
  readonly hold: (limits: SandboxLimits) => Promise<void>;
}

/** Resolves with what its guest is told when the row says it. @param giveUp it is to be removed @throws vm_unsupported where it has to start anew for that, limit_below_use where its guest does not give the memory back, guest_failed */
export async function limitVm(
  vm: LimitedVm,
  { limits, before }: LimitChange,
  giveUp: AbortSignal,
): Promise<LimitRest> {
  const { sizes } = vm.vmm;
  if (sizes === undefined) throw refusal(vm, 'can not get other limits while it runs');
  const within = (ms: number): AbortSignal => AbortSignal.any([giveUp, AbortSignal.timeout(ms)]);
  const { accelerator, processors, memoryBytes } = await sizeOf(vm, sizes, within(askMsMax));
  // What a start would give it: one that is emulated never has more than one, and gets what it was made with again.
  const { cpuMilli } = limits;
  if (cpuMilli > before.cpuMilli && sizes.processors({ accelerator, cpuMilli }) > processors)
    throw refusal(vm, `has ${processors === 1 ? 'one processor' : `${processors} processors`} while it runs`);
  const [wanted, had] = [guestMemoryBytes(limits), guestMemoryBytes(before)];
  if (wanted > memoryBytes)
    throw refusal(vm, `has ${mibOf(memoryBytes)} MiB of memory at most while it runs`);
  const hold = async (held: SandboxLimits): Promise<void> =>
    await vm.hold(vmmLimits(held, vm.vmm, accelerator));
  const balloon = async (bytes: number): Promise<void> => {
    const signal = within(giveMsMax);
    await controlled(vm, signal, (control) => sizes.balloon(control, bytes, signal));
  };
  const holdCommands = async (bytes: number): Promise<void> =>
    await vm.guest.takeMemory(memoryBytes - bytes, within(askMsMax));
  const giveBack = async (bytes: number): Promise<void> => {
    // What its guest does not take now it may take later.
    await balloon(bytes).catch(() => undefined);
    await holdCommands(bytes).catch(() => undefined);
  };
  if (wanted >= had) {
    await hold(limits);
    // A guest may take its time, and a daemon that dies meanwhile would leave a group with more than the row says.
    return async () => (wanted > had ? await giveBack(wanted) : undefined);
  }
  try {
    // Commands first: else a guest that can't give it back would end some of them for want of it.
    await holdCommands(wanted);
    await balloon(wanted).catch(async () => {
      const { leftBytes } = await sizeOf(vm, sizes, within(askMsMax));
      throw belowUse(vm, wanted, `its guest keeps ${mibOf(leftBytes)} MiB`);
    });
    await hold(limits);
  } catch (error) {
    giveUp.throwIfAborted();
    await hold(before).catch(() => undefined);
    await giveBack(had);
    throw isTooMuch(error) ? belowUse(vm, wanted, 'its kernel and commands use more') : error;
  }
  return () => Promise.resolve();
}

/** One that starts with these limits is as this one is. @param giveUp it is to be removed @throws vm_unsupported, guest_failed */
export async function checkSize(
  { vm, vmm: { sizes } }: { readonly vm: Pick<RunningVm, 'id' | 'connect'>; readonly vmm: Vmm },
  limits: SandboxLimits,
  giveUp: AbortSignal,
): Promise<void> {
  if (sizes === undefined) return;
  const late = AbortSignal.any([giveUp, AbortSignal.timeout(askMsMax)]);
  const { accelerator, processors, memoryBytes, leftBytes } = await sizeOf(vm, sizes, late);
  const isWhole = leftBytes === memoryBytes && memoryBytes === guestMemoryBytes(limits);
  if (isWhole && processors === sizes.processors({ accelerator, cpuMilli: limits.cpuMilli })) return;
  throw refusal(vm, 'has other limits than it started with, and can not be saved with its memory');
}

async function sizeOf(
  vm: Pick<RunningVm, 'connect'>,
  sizes: MachineSizes,
  signal: AbortSignal,
): Promise<MachineSize> {
  return await controlled(vm, signal, (control) => sizes.of(control, signal));
}

function isTooMuch(error: unknown): boolean {
  return error instanceof AppError && error.cause instanceof GuestErrno && error.cause.code === 'ENOMEM';
}

function belowUse({ id }: Pick<RunningVm, 'id'>, wanted: number, why: string): AppError {
  const message = `Cannot hold sandbox "${id}" to ${mibOf(wanted)} MiB of memory: ${why}`;
  return new AppError('limit_below_use', message);
}

function mibOf(bytes: number): number {
  return Math.ceil(bytes / mib);
}

function refusal({ id }: Pick<RunningVm, 'id'>, why: string): AppError {
  return new AppError(
    'vm_unsupported',
    `Sandbox "${id}" is a microVM that ${why}: stop it (squash pause --keep files), change it, and resume it`,
  );
}
