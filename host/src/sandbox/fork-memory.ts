/**
 * A fork with memory: a microVM that goes on where another one is, with its processes, on a copy of its disk.
 *
 * The disk is that of the memory's own moment, so nothing that was written is packed, and the new one lies on what the other lies on.
 * Both must be alike in all that the memory depends on. The daemon follows no command that was begun in the other one.
 */
import { rm } from 'node:fs/promises';
import { AppError } from '@squash/contract/errors';
import type { LayerDigest } from '@squash/contract/ids';
import type { CreateWish } from '@squash/contract/sandbox';
import type { MemoryFiles } from '../drivers/driver.ts';
import { cutOff } from './cut-offs.ts';
import { startsSettled } from './rest.ts';
import type { Sandbox } from './sandbox.ts';

/** What a sandbox that goes on from another one's memory starts with. */
export interface MemoryStart {
  readonly files: MemoryFiles;
  readonly trust: LayerDigest | null;
}

/** Before anything is made. @throws unsupported_feature, vm_unsupported, invalid_request */
export function checkMemoryFork(wish: CreateWish, { row, world }: Sandbox): void {
  const { native } = wish;
  if (native?.from?.memory !== true) return;
  world.driver.checkMemory(row.backend);
  if (row.mounts.length > 0 || (wish.mounts ?? []).length > 0)
    throw new AppError(
      'vm_unsupported',
      'A fork with memory has no volumes and no directories of the host, and neither has the one it is made from',
    );
  const other = [
    wish.backend !== undefined && wish.backend !== row.backend && 'backend',
    wish.cpu !== undefined && wish.cpu !== row.cpu && 'cpu',
    wish.memoryMb !== undefined && wish.memoryMb !== row.memoryMb && 'memory_mb',
    native.from.snapshot !== undefined && 'from.snapshot',
  ].find((name) => name !== false);
  if (other === undefined) return;
  throw new AppError(
    'invalid_request',
    `"${other}" and "memory" exclude each other: a fork with memory is as the sandbox it is made from is now`,
  );
}

/** Call in the source's turn. It goes on, whatever happens. @throws sandbox_not_ready, sandbox_busy, guest_failed, disk_full */
export async function saveMemory(source: Sandbox): Promise<MemoryStart> {
  const { world } = source;
  const files = { memory: world.files.temporary('memory'), disk: world.files.temporary('disk') };
  try {
    await source.whileFrozen(async () => {
      await startsSettled(source, 'fork');
      const { row, state } = source;
      if (state.phase !== 'ready')
        throw new AppError(
          'sandbox_not_ready',
          `Cannot fork sandbox "${row.id}" with its memory: it is ${state.phase}`,
        );
      cutOff(source);
      await world.driver.saveMemory(row, files, source.removal.signal);
    });
  } catch (error) {
    await dropMemory({ files });
    throw error;
  }
  return { files, trust: source.row.trust };
}

/** A VM that has started holds what it needs of them. */
export async function dropMemory({ files }: Pick<MemoryStart, 'files'>): Promise<void> {
  await Promise.all([rm(files.memory, { force: true }), rm(files.disk, { force: true })]);
}
