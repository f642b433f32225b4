/** Which backend a sandbox has, and what one that is a microVM is refused. */
import type { Backend } from '@squash/contract/backend';
import { AppError } from '@squash/contract/errors';
import type { CreateRequest } from '@squash/contract/sandbox';
import type { SandboxRow } from '#store/rows.ts';
import type { World } from './world.ts';

/** Chosen at create and never changed. @throws vm_unavailable, vm_unsupported */
export function backendFor(
  world: Pick<World, 'backend' | 'driver'>,
  { backend: wished, native, mounts }: Pick<CreateRequest, 'backend' | 'native' | 'mounts'>,
): Backend {
  // Whoever asks for the host's files and names no backend means the one that can show them.
  const backend = wished ?? (native?.hostRoot === undefined ? world.backend : 'chroot');
  if (backend === 'chroot') return backend;
  if (native?.hostRoot !== undefined) throw unsupported('have the host’s file system as its root');
  if (native?.onTimeout === 'snapshot') throw unsupported('be saved as a snapshot when its time is over');
  if (mounts !== undefined && mounts.length > 0) throw unsupported('have mounts');
  world.driver.checkBackend(backend);
  return backend;
}

/** @param what it would be asked to do, as an infinitive @throws vm_unsupported */
export function refuseVm({ backend, id }: Pick<SandboxRow, 'backend' | 'id'>, what: string): void {
  if (backend === 'vm') throw unsupported(what, id);
}

function unsupported(what: string, id?: string): AppError {
  const which = id === undefined ? 'A sandbox' : `Sandbox "${id}"`;
  return new AppError('vm_unsupported', `${which} that is a microVM can not ${what}`);
}
