/**
 * A snapshot with memory: beside its file, which is as any other's, the memory of the microVM and its disk of the same moment.
 *
 * The row says what the two files are. A file of such a name that is not the row's, or is not what it was, is given to nobody.
 */
import { link, open, stat } from 'node:fs/promises';
import { errorText } from '@squash/base/bug';
import { fileDigest } from '@squash/base/file-digest';
import { AppError } from '@squash/contract/errors';
import { layerDigestSchema, type LayerDigest, type SnapshotLabel } from '@squash/contract/ids';
import type { SavedMemory } from '#store/rows.ts';
import type { MemoryFiles, PackResult } from '../drivers/driver.ts';
import { dropMemory, memoryOf, type MemoryStart, writeMemory } from './fork-memory.ts';
import type { Sandbox } from './sandbox.ts';
import { findSnapshot } from './snapshots.ts';

export interface PackedWithMemory {
  readonly packed: PackResult;
  readonly memory: SavedMemory;
  readonly stillMs: number;
}

/** The memory, and what `pack` makes right behind it, before any command begins. The files have their places when it resolves. @throws what `writeMemory` and `pack` do */
export async function packWithMemory(
  sandbox: Sandbox,
  label: SnapshotLabel,
  pack: () => Promise<PackResult>,
): Promise<PackedWithMemory> {
  const { start, packed, stillMs } = await sandbox.whileFrozen(async () => {
    const written = await writeMemory(sandbox, 'snapshot');
    try {
      return { ...written, packed: await pack() };
    } catch (error) {
      await dropMemory(written.start);
      throw error;
    }
  });
  try {
    const { row, world } = sandbox;
    const { files, like } = start;
    const [memory, disk] = await Promise.all([digestOf(files.memory), digestOf(files.disk)]);
    const bytes = (await stat(files.memory)).size + (await stat(files.disk)).size;
    await world.files.takeSnapshotMemory(row.id, label, files);
    const { cpu, memoryMb } = row;
    const { trust, limits } = like;
    const { machine } = files;
    return {
      packed,
      memory: { cpu, memoryMb, limits, trust, machine, bytes, digests: { memory, disk } },
      stillMs,
    };
  } catch (error) {
    await dropMemory(start);
    throw error;
  }
}

/**
 * What a new sandbox goes on from, under names of its own: the snapshot may be removed meanwhile. Call in the sandbox's turn.
 * @throws snapshot_not_found, invalid_request, layer_corrupt
 */
export async function heldMemory(sandbox: Sandbox, label: SnapshotLabel): Promise<MemoryStart> {
  const { row, world } = sandbox;
  const snapshot = findSnapshot(sandbox, label);
  const { trust, limits, machine, digests } = memoryOf(snapshot);
  const from = world.files.snapshotMemory(row.id, label);
  const files: MemoryFiles = { memory: world.files.temporary('memory'), disk: world.files.temporary('disk') };
  const unusable = (why: string, cause?: unknown): AppError =>
    new AppError(
      'layer_corrupt',
      `Cannot go on from the memory of snapshot "${label}" of sandbox "${row.id}": ${why}`,
      { cause },
    );
  try {
    for (const part of ['memory', 'disk'] as const) {
      await link(from[part], files[part]);
      if ((await digestOf(files[part])) !== digests[part])
        throw unusable(`its ${part} is not what was saved`);
    }
  } catch (error) {
    await dropMemory({ files });
    throw error instanceof AppError ? error : unusable(errorText(error), error);
  }
  const { base, layers } = snapshot;
  return { files: { ...files, machine }, like: { layers, trust, limits }, base };
}

async function digestOf(path: string): Promise<LayerDigest> {
  const file = await open(path, 'r');
  try {
    return layerDigestSchema.parse(await fileDigest(file));
  } finally {
    await file.close();
  }
}
