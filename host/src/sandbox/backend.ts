/** Which backend a sandbox has, and what one that is a microVM is refused. */
import type { Backend } from '@squash/contract/backend';
import { AppError } from '@squash/contract/errors';
import type { CreateRequest } from '@squash/contract/sandbox';
import { hasLevels, levelsOf, type StoredMount } from '@squash/contract/volume';
import type { SandboxRow } from '#store/rows.ts';
import type { World } from './world.ts';

/** Chosen at create and never changed. @throws vm_unavailable, vm_unsupported */
export function backendFor(
  world: Pick<World, 'backend' | 'driver'>,
  request: Pick<CreateRequest, 'backend' | 'native' | 'mounts'>,
): Backend {
  const { native, mounts = [] } = request;
  const backend = wishedBackend(world, request);
  if (native?.hostRoot !== undefined) refuseBoxLevels(mounts);
  if (backend === 'chroot') return backend;
  if (native?.hostRoot !== undefined) throw unsupported('have the host’s file system as its root');
  checkVmMounts({ backend }, mounts);
  world.driver.checkBackend(backend, mounts.length > 0);
  return backend;
}

/** Whoever asks for the host's files and names no backend means the one that can show them. */
export function wishedBackend(
  world: Pick<World, 'backend'>,
  { backend, native }: Pick<CreateRequest, 'backend' | 'native'>,
): Backend {
  return backend ?? (native?.hostRoot === undefined ? world.backend : 'chroot');
}

/** Of all paths together: a guest is told them by its kernel's command line, three characters for a byte that is no plain one. */
const mountPathsBytesMax = 400;

/** @param mounts all that it is to have. @throws vm_unsupported */
export function checkVmMounts(
  { backend, id }: Pick<SandboxRow, 'backend'> & Partial<Pick<SandboxRow, 'id'>>,
  mounts: readonly StoredMount[],
): void {
  if (backend === 'vm' && mounts.some((mount) => levelsOf(mount).includes('cow')))
    throw unsupported('write copy-on-write to a directory of the host', id);
  const bytes = mounts.reduce((sum, { path }) => sum + Buffer.byteLength(path), 0);
  if (backend === 'vm' && bytes > mountPathsBytesMax)
    throw unsupported(`have mounts at paths of more than ${mountPathsBytesMax} bytes together`, id);
}

/** A root that is the host's has levels for all of it. @throws host_root_unsupported */
export function refuseBoxLevels(mounts: readonly StoredMount[]): void {
  if (mounts.some(hasLevels))
    throw new AppError(
      'host_root_unsupported',
      'Mounts have no levels where the root is the host’s file system: name the paths in from.host.paths',
    );
}

/** @param what it would be asked to do, as an infinitive @throws vm_unsupported */
export function refuseVm({ backend, id }: Pick<SandboxRow, 'backend' | 'id'>, what: string): void {
  if (backend === 'vm') throw unsupported(what, id);
}

function unsupported(what: string, id?: string): AppError {
  const which = id === undefined ? 'A sandbox' : `Sandbox "${id}"`;
  return new AppError('vm_unsupported', `${which} that is a microVM can not ${what}`);
}
