/**
 * A microVM that goes on where another one is, or was at a snapshot, with its processes, on a copy of its disk.
 *
 * The disk is that of the memory's own moment, so nothing that was written is packed, and the new one lies on what the other lies on.
 * Both must be alike in all that the memory depends on. The daemon follows no command that was begun in the other one.
 */
import { rm } from 'node:fs/promises';
import { AppError } from '@squash/contract/errors';
import type { SnapshotLabel } from '@squash/contract/ids';
import type { CreateWish } from '@squash/contract/sandbox';
import type { SandboxRow, SavedMemory } from '#store/rows.ts';
import type { SavedMachine, StartSpec } from '../drivers/driver.ts';
import { cutOff } from './cut-offs.ts';
import { startsSettled } from './rest.ts';
import type { Sandbox } from './sandbox.ts';
import { startSpec } from './start-spec.ts';

/** What a sandbox that goes on from another one's memory starts with. */
export interface MemoryStart {
  readonly files: NonNullable<StartSpec['memory']>;
  readonly like: Pick<SandboxRow, 'layers' | 'trust' | 'limits'>;
  /** Which of the other one's snapshots its disk lies on. */
  readonly base: SnapshotLabel | null;
}

/** @throws unsupported_feature, vm_unsupported where it can't be saved with its memory */
export function checkMemory({ row, world }: Sandbox, mounts = row.mounts.length): void {
  world.driver.checkMemory(row.backend);
  if (mounts === 0) return;
  throw new AppError(
    'vm_unsupported',
    'What is saved with its memory has no volumes and no directories of the host, and neither has what goes on from there',
  );
}

/** What the new one must be, of the sandbox or of its snapshot. @throws invalid_request where that was taken without memory */
function modelOf(source: Sandbox, label: SnapshotLabel | undefined): Pick<SavedMemory, 'cpu' | 'memoryMb'> {
  const snapshot = source.snapshots.find((each) => each.label === label);
  return snapshot === undefined ? source.row : memoryOf(snapshot);
}

/** @throws invalid_request */
export function memoryOf({
  label,
  memory,
}: {
  readonly label: SnapshotLabel;
  readonly memory: SavedMemory | null;
}): SavedMemory {
  if (memory !== null) return memory;
  throw new AppError(
    'invalid_request',
    `Snapshot "${label}" was taken without memory: there is nothing to go on from`,
  );
}

/** Before anything is made. What it says is what the wish leaves open. @throws unsupported_feature, vm_unsupported, invalid_request */
export function checkMemoryFork(wish: CreateWish, source: Sandbox): Pick<SavedMemory, 'cpu' | 'memoryMb'> {
  const { native } = wish;
  const { row } = source;
  if (native?.from?.memory !== true) return row;
  const { snapshot } = native.from;
  const { length: held } = snapshot === undefined ? row.mounts : [];
  checkMemory(source, held + (wish.mounts?.length ?? 0));
  const model = modelOf(source, snapshot);
  const other = [
    wish.backend !== undefined && wish.backend !== row.backend && 'backend',
    wish.cpu !== undefined && wish.cpu !== model.cpu && 'cpu',
    wish.memoryMb !== undefined && wish.memoryMb !== model.memoryMb && 'memory_mb',
  ].find((name) => name !== false);
  if (other === undefined) return model;
  throw new AppError(
    'invalid_request',
    `"${other}" and "memory" exclude each other: what goes on from a memory is as that was`,
  );
}

/** Call in the source's turn. It goes on, whatever happens. @throws sandbox_not_ready, sandbox_busy, guest_failed, disk_full */
export async function saveMemory(source: Sandbox): Promise<MemoryStart> {
  const { start } = await source.whileFrozen(() => writeMemory(source, 'fork'));
  return start;
}

/** The same, for whoever has more to do while nothing begins in it. */
export async function writeMemory(
  source: Sandbox,
  what: 'fork' | 'snapshot',
): Promise<{ readonly start: MemoryStart; readonly stillMs: number }> {
  const { world } = source;
  const files = { memory: world.files.temporary('memory'), disk: world.files.temporary('disk') };
  try {
    await startsSettled(source, what);
    const { row, state } = source;
    if (state.phase !== 'ready')
      throw new AppError(
        'sandbox_not_ready',
        `Cannot ${what} sandbox "${row.id}" with its memory: it is ${state.phase}`,
      );
    const trees = await world.layerLock.shared(() => source.trees({}));
    cutOff(source);
    const saved: SavedMachine = await world.driver.saveMemory(
      startSpec(world, row, { trees }),
      files,
      source.removal.signal,
    );
    const { layers, trust, limits, activeSnapshot: base } = row;
    const start = { files: { ...files, machine: saved.machine }, like: { layers, trust, limits }, base };
    return { start, stillMs: saved.stillMs };
  } catch (error) {
    await dropMemory({ files });
    throw error;
  }
}

/** A VM that has started holds what it needs of them. */
export async function dropMemory({
  files,
}: {
  readonly files: Pick<MemoryStart['files'], 'memory' | 'disk'>;
}): Promise<void> {
  await Promise.all([rm(files.memory, { force: true }), rm(files.disk, { force: true })]);
}
