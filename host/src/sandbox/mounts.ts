/**
 * Attaching to a sandbox that is there, and detaching. Each runs in the mailbox.
 *
 * The row comes first at an attach and last at a detach, so the row never says less than what is attached: a volume that a crash left
 * attached is never given to somebody else. A new daemon attaches what the row says to a sandbox that it takes over, which does
 * nothing where it is there.
 */
import { AppError } from '@squash/contract/errors';
import type { EventData } from '@squash/contract/events';
import { limits } from '@squash/contract/limits';
import type { HostWish, MountStep } from '@squash/contract/mount-check';
import {
  hasLevels,
  type MountId,
  type StoredMount,
  type VolumeId,
  writesHost,
} from '@squash/contract/volume';
import type { MountSpec, RunningSandbox } from '../drivers/driver.ts';
import type { SandboxRow } from '#store/rows.ts';
import { checkVmMounts, refuseBoxLevels, refuseVm } from './backend.ts';
import { faultPoint } from './fault.ts';
import { dropMasks } from './host-root.ts';
import type { State } from './lifecycle.ts';
import type { Sandbox } from './sandbox.ts';
import type { World } from './world.ts';

/** What a sandbox has attached, as the driver is to be told. Made by `host/src/mounts`. */
export interface MountSources {
  /** Each rule about a directory of the host, up to the one that refuses it. */
  judge(wish: HostWish): readonly MountStep[];
  /** Those that others lie in come first. @throws volume_not_found, host_directory_refused, mount_limit */
  specs(row: Pick<SandboxRow, 'owner' | 'mounts'>): readonly MountSpec[];
  /** What was last said of it, while it may be attached: a directory of the host may have gone since. */
  lastSpec(mount: StoredMount): MountSpec | undefined;
  /** In the same turn of the event loop as the row is written. @throws volume_not_found, volume_in_use */
  checkFree(mounts: readonly StoredMount[]): void;
  /** Nobody attaches it until that is disposed of: it is being copied. */
  hold(volume: VolumeId): Disposable;
  isHeld(volume: VolumeId): boolean;
}

/**
 * In the same turn of the event loop as the row is written.
 *
 * @param mounts all that the sandbox is to have, `added` among them
 * @throws mount_exists, mount_limit, volume_not_found, volume_in_use
 */
export function checkMounts(
  world: World,
  mounts: readonly StoredMount[],
  added: readonly StoredMount[],
): void {
  if (mounts.length > limits.mountsMax)
    throw new AppError('mount_limit', `Cannot attach ${mounts.length} mounts: ${limits.mountsMax} at most`);
  const paths = new Set(mounts.map(({ path }) => path));
  if (paths.size < mounts.length)
    throw new AppError('mount_exists', 'Cannot attach: two mounts would have one path');
  world.mounts.checkFree(added);
  // The launcher tells by what is shown whether a mount is there: at two places it could be either.
  const sources = new Set(mounts.map(({ volume, host }) => volume ?? host));
  if (sources.size < mounts.length)
    throw new AppError('mount_exists', 'Cannot attach a volume or directory that the sandbox has already');
  // What levels are made of is shown there, too.
  if (mounts.some((mount) => mounts.some((other) => isShownIn(mount, other))))
    throw new AppError(
      'mount_exists',
      'Cannot attach a directory where a mount with levels shows it already',
    );
}

function isShownIn({ host, path }: StoredMount, levelled: StoredMount): boolean {
  if (host === null || levelled.host === null || !hasLevels(levelled)) return false;
  return host.startsWith(`${levelled.host}/`) && path === levelled.path + host.slice(levelled.host.length);
}

/** @throws sandbox_not_ready, vm_unsupported, vm_unavailable, mount_exists, mount_limit, volume_in_use, host_directory_refused, mount_refused */
export async function attachMount(sandbox: Sandbox, mount: StoredMount): Promise<void> {
  const { world, row } = sandbox;
  const { state } = sandbox;
  refuseWhileVmRuns(sandbox, 'get a mount');
  if (!isAlive(state) && state.phase !== 'stopped')
    throw new AppError('sandbox_not_ready', `Cannot attach to sandbox "${row.id}": it is ${state.phase}`);
  const mounts = [...row.mounts, mount];
  // What would keep one that is stopped from starting again.
  world.driver.checkBackend(row.backend, true);
  checkVmMounts(row, mounts);
  if (row.hostRoot !== null) refuseBoxLevels([mount]);
  const spec = specOf(world, row, mount);
  // One start has room for so many.
  if (hasLevels(mount)) world.mounts.specs({ owner: row.owner, mounts });
  checkMounts(world, mounts, [mount]);
  if (isAlive(state)) {
    refuseOwnFiles(world, row, mount);
    refuseLevels(row, mount, 'mount_refused');
  }
  sandbox.change({ mounts }, 'durably');
  faultPoint('mount.committed');
  try {
    // One that was stopped has it when it starts.
    if (isAlive(state)) await world.driver.attachMount(row.id, spec);
  } catch (error) {
    if (await isAttachedNowhere(sandbox, spec, error))
      sandbox.change({ mounts: sandbox.row.mounts.filter(({ id }) => id !== mount.id) }, 'pressing');
    throw error;
  }
  faultPoint('mount.attached');
  sandbox.tell({ type: 'mount.attached', data: dataOf(mount) });
}

/** A launcher that went away in the middle may have attached it: then it stays in the row, to be detached or to go with the sandbox. */
async function isAttachedNowhere({ world, row }: Sandbox, spec: MountSpec, error: unknown): Promise<boolean> {
  if (error instanceof AppError && error.code !== 'launcher_unavailable') return true;
  try {
    await world.driver.detachMount(row.id, spec);
    return true;
  } catch {
    // What is told is why it could not be attached.
    return false;
  }
}

/** @throws mount_not_found, mount_busy */
export async function detachMount(sandbox: Sandbox, id: MountId): Promise<void> {
  const { world, row, state } = sandbox;
  const mount = row.mounts.find((each) => each.id === id);
  if (mount === undefined)
    throw new AppError('mount_not_found', `Cannot detach "${id}": sandbox "${row.id}" has no such mount`);
  // In one that does not run nothing is attached.
  refuseWhileVmRuns(sandbox, 'lose a mount');
  if (isAlive(state)) refuseLevels(row, mount, 'mount_busy');
  const spec = world.mounts.lastSpec(mount);
  if (isAlive(state)) await world.driver.detachMount(row.id, spec ?? specOf(world, row, mount));
  else if (state.phase !== 'failed' && state.phase !== 'stopped')
    throw new AppError('sandbox_not_ready', `Cannot detach from sandbox "${row.id}": it is ${state.phase}`);
  if (hasLevels(mount)) dropMasks(world, row, id);
  faultPoint('unmount.detached');
  sandbox.change({ mounts: sandbox.row.mounts.filter((each) => each.id !== id) }, 'durably', {
    type: 'mount.detached',
    data: dataOf(mount),
  });
  faultPoint('unmount.committed');
}

/** What a daemon before this one may have begun, or the operator taken back. @throws as `attachMount` */
export async function ensureMounts({ world, row }: Sandbox, running: RunningSandbox): Promise<void> {
  for (const spec of world.mounts.specs(row)) {
    // It came with the start.
    if ('host' in spec && spec.host.places !== undefined) continue;
    try {
      await world.driver.attachMount(running.id, spec);
    } catch (error) {
      // A program inside moved the directory that it lies in: it is still there, and goes when the sandbox stops. What stands
      // at its place now, a link or a file, is no reason to end the sandbox.
      if (!(error instanceof AppError && ['mount_exists', 'mount_refused'].includes(error.code))) throw error;
    }
  }
}

const dataOf = ({ id, volume, host, path, mode }: StoredMount): EventData => ({
  mount: id,
  volume,
  host,
  path,
  mode,
});

/** Its guest has what it was started with. @throws vm_unsupported */
function refuseWhileVmRuns({ row, state }: Sandbox, what: string): void {
  if (isAlive(state)) refuseVm(row, `${what} while it runs: stop it first (squash pause --keep files)`);
}

/**
 * What it makes there is of the user who started the daemon where there is one id. Only a sandbox that begins with the directory is kept from
 * making a set-uid file, by which every other user of the machine would become him. @throws mount_refused
 */
function refuseOwnFiles({ driver }: World, { id, mounts }: SandboxRow, mount: StoredMount): void {
  if (!driver.hasOneId || !writesHost(mount) || mounts.some(writesHost)) return;
  throw new AppError(
    'mount_refused',
    `Cannot attach "${mount.host}" rw to sandbox "${id}" while it runs: in single-id mode what it writes there is yours; stop it first (squash pause --keep files)`,
  );
}

/** What they are made of comes to be while the sandbox starts, and nobody inside sees it come. @throws `code` */
function refuseLevels({ id }: SandboxRow, mount: StoredMount, code: 'mount_refused' | 'mount_busy'): void {
  if (!hasLevels(mount)) return;
  const what = code === 'mount_busy' ? 'detach' : 'attach';
  throw new AppError(
    code,
    `Cannot ${what} "${mount.host}" with levels of its own while sandbox "${id}" runs: stop it first (squash pause --keep files)`,
  );
}

/** Also one that stands still. */
function isAlive({ phase }: State): boolean {
  return phase === 'ready' || phase === 'paused';
}

function specOf(world: World, { owner }: SandboxRow, mount: StoredMount): MountSpec {
  const [spec] = world.mounts.specs({ owner, mounts: [mount] });
  if (spec === undefined) throw new AppError('internal', `mount "${mount.id}" has no source`);
  return spec;
}
