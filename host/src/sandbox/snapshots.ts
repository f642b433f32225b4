/**
 * Snapshots as things of their own: listed, removed, sent whole. All but looking runs in the mailbox.
 *
 * What a newcomer would get wrong: a snapshot that was taken after a restore lies on the one that was restored, and so
 * does the sandbox itself. A removed one that something lies on keeps its file and its row under a label that no client
 * can say, and goes with the last that needs it.
 */
import { type FileHandle, open, rm } from 'node:fs/promises';
import { AppError } from '@squash/contract/errors';
import type { LayerDigest, SnapshotLabel } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { SnapshotDetails, SnapshotPatch } from '@squash/contract/native-snapshot';
import { errorText } from '@squash/base/bug';
import { rfc3339 } from '@squash/base/clock';
import { faultPoint } from '#sandbox/fault.ts';
import { isRemoved, removedLabel, type SnapshotRow } from '#store/rows.ts';
import { dropIndex } from './snapshot-index.ts';
import type { SandboxEvent } from './event-port.ts';
import { mergedLabels } from './labels.ts';
import type { Sandbox } from './sandbox.ts';

export function listSnapshots(sandbox: Sandbox): readonly SnapshotDetails[] {
  return sandbox.snapshots.filter((each) => !isRemoved(each)).map((each) => detailsOf(sandbox, each));
}

/** @throws snapshot_not_found */
export function getSnapshot(sandbox: Sandbox, label: SnapshotLabel): SnapshotDetails {
  return detailsOf(sandbox, findSnapshot(sandbox, label));
}

/** @throws snapshot_not_found */
export function findSnapshot(sandbox: Sandbox, label: SnapshotLabel): SnapshotRow {
  const found = sandbox.snapshots.find((each) => each.label === label);
  if (found !== undefined) return found;
  throw new AppError('snapshot_not_found', `Cannot find snapshot "${label}" of sandbox "${sandbox.row.id}"`);
}

function detailsOf(sandbox: Sandbox, snapshot: SnapshotRow): SnapshotDetails {
  const { label, labels, createdMs, size, base, memory } = snapshot;
  const isBaseThere = base !== null && !isRemoved({ label: base });
  return {
    label,
    labels: { ...labels },
    created_at: rfc3339(createdMs),
    size_bytes: size,
    memory_bytes: memory?.bytes ?? null,
    location: 'local',
    whole: base === null,
    base: isBaseThere ? base : null,
    active: sandbox.row.activeSnapshot === label,
  };
}

/** @throws invalid_request where the sandbox has as many as it may */
export function checkRoom({ row, snapshots }: Sandbox): void {
  if (snapshots.length < limits.snapshotsMax) return;
  throw new AppError(
    'invalid_request',
    `Cannot keep another snapshot of sandbox "${row.id}": it has ${snapshots.length}`,
  );
}

/** @throws snapshot_exists */
export async function checkFree({ row, snapshots, world }: Sandbox, label: SnapshotLabel): Promise<void> {
  const isTaken = snapshots.some((each) => each.label === label);
  if (!isTaken && !world.files.exists(world.files.snapshot(row.id, label))) return;
  throw new AppError(
    'snapshot_exists',
    `Cannot make snapshot "${label}": sandbox "${row.id}" has one with this label`,
  );
}

/** @throws snapshot_not_found, disk_full */
export async function removeSnapshot(sandbox: Sandbox, label: SnapshotLabel): Promise<void> {
  findSnapshot(sandbox, label);
  if (isLainOn(sandbox, label)) await hide(sandbox, label);
  else await erase(sandbox, label);
  await sweepRemoved(sandbox);
}

/** Removed snapshots that nothing lies on any more. */
export async function sweepRemoved(sandbox: Sandbox): Promise<void> {
  for (;;) {
    const free = sandbox.snapshots.find((each) => isRemoved(each) && !isLainOn(sandbox, each.label));
    if (free === undefined) return;
    await erase(sandbox, free.label);
  }
}

function isLainOn({ row, snapshots }: Sandbox, label: SnapshotLabel): boolean {
  return row.activeSnapshot === label || snapshots.some((each) => each.base === label);
}

function removed(label: SnapshotLabel): SandboxEvent {
  return { type: 'snapshot.removed', data: { label } };
}

/** Row first: a crash behind it finds the intent and removes the file, as of a snapshot that was never answered. */
async function erase(sandbox: Sandbox, label: SnapshotLabel): Promise<void> {
  await dropIndex(sandbox, findSnapshot(sandbox, label));
  sandbox.commitSnapshots({
    snapshots: sandbox.snapshots.filter((each) => each.label !== label),
    change: { pending: { op: 'snapshot', label } },
    write: (table, id) => table.deleteSnapshot(id, label),
    // The removal of one that something lay on was told when it was asked for.
    event: isRemoved({ label }) ? undefined : removed(label),
  });
  faultPoint('snapshot-remove.committed');
  await dropFile(sandbox, label);
}

async function hide(sandbox: Sandbox, label: SnapshotLabel): Promise<void> {
  let kept = removedLabel(label, 1);
  for (let number = 2; sandbox.snapshots.some((each) => each.label === kept); number += 1)
    kept = removedLabel(label, number);
  await rename(sandbox, { from: label, to: kept, as: 'snapshot-remove' });
}

/** The same content under another name before the row says so, and the old name goes behind it. */
async function rename(
  sandbox: Sandbox,
  {
    from,
    to,
    as,
  }: {
    readonly from: SnapshotLabel;
    readonly to: SnapshotLabel;
    readonly as: 'snapshot-remove' | 'snapshot-rename';
  },
): Promise<void> {
  const { row, snapshots, world } = sandbox;
  const before = snapshots.find(({ label }) => label === from);
  if (before !== undefined) await dropIndex(sandbox, before);
  await world.files.linkSnapshot(row.id, from, to);
  // Of one that is removed and kept for what lies on it nobody can ask for the memory.
  const losesMemory = as === 'snapshot-remove';
  if (!losesMemory && (before?.memory ?? null) !== null)
    await world.files.linkSnapshotMemory(row.id, from, to);
  faultPoint(`${as}.linked`);
  const renamed = <T extends SnapshotLabel | null>(each: T): T | SnapshotLabel => (each === from ? to : each);
  sandbox.commitSnapshots({
    snapshots: snapshots.map((each) => ({
      ...each,
      label: renamed(each.label),
      base: renamed(each.base),
      memory: losesMemory && each.label === from ? null : each.memory,
    })),
    change: { activeSnapshot: renamed(row.activeSnapshot), pending: { op: 'snapshot', label: from } },
    write: (table, id) => {
      table.renameSnapshot(id, from, to);
      if (losesMemory) table.dropSnapshotMemory(id, to);
    },
    event:
      as === 'snapshot-remove'
        ? removed(from)
        : { type: 'snapshot.updated', data: { label: to, changed: 'label', from } },
  });
  faultPoint(`${as}.committed`);
  await dropFile(sandbox, from);
}

/** @throws snapshot_not_found, snapshot_exists, invalid_request, disk_full */
export async function changeSnapshot(
  sandbox: Sandbox,
  label: SnapshotLabel,
  patch: SnapshotPatch,
): Promise<SnapshotDetails> {
  const { labels } = findSnapshot(sandbox, label);
  const { label: renamed = label } = patch;
  if (renamed !== label) await checkFree(sandbox, renamed);
  if (patch.labels !== undefined) relabel(sandbox, label, mergedLabels(labels, patch.labels));
  if (renamed === label) return getSnapshot(sandbox, label);
  // A crash before the row says so leaves a file of this name, which is no snapshot that was put there by hand.
  sandbox.change({ pending: { op: 'snapshot', label: renamed } });
  try {
    await rename(sandbox, { from: label, to: renamed, as: 'snapshot-rename' });
  } catch (error) {
    // Where the row has the new name already, the intent is about the old one's file, which the next start removes.
    if (sandbox.snapshots.some((each) => each.label === label)) await dropFile(sandbox, renamed);
    throw error;
  }
  return getSnapshot(sandbox, renamed);
}

function relabel(sandbox: Sandbox, label: SnapshotLabel, labels: SnapshotRow['labels']): void {
  sandbox.commitSnapshots({
    snapshots: sandbox.snapshots.map((each) => (each.label === label ? { ...each, labels } : each)),
    change: {},
    write: (table, id) => table.setSnapshotLabels(id, label, labels),
    event: { type: 'snapshot.updated', data: { label, changed: 'labels' } },
  });
}

async function dropFile(sandbox: Sandbox, label: SnapshotLabel): Promise<void> {
  await sandbox.world.files.dropSnapshot(sandbox.row.id, label);
  sandbox.change({ pending: null }, 'pressing');
}

/** A file on its way. In an object, because the sandbox's turn does not wait for it. */
export interface Opening {
  readonly file: Promise<FileHandle>;
}

/**
 * The whole of it as one file that is the caller's to close. One that lies on others is merged into a file without a
 * name, which is gone when it is closed. @throws snapshot_not_found, layer_corrupt, snapshot_path_too_long, disk_full
 */
export async function openSnapshot(sandbox: Sandbox, label: SnapshotLabel): Promise<Opening> {
  const { world, row } = sandbox;
  const { base } = findSnapshot(sandbox, label);
  if (base === null) return { file: openFile(world.files.snapshot(row.id, label), label) };
  return world.layerLock.shared(async () => {
    const trees = await sandbox.trees({ layers: [], activeSnapshot: label });
    const file = mergeTrees(sandbox, label, trees).finally(() => sandbox.merges.delete(file));
    // Before the lock goes, behind which unused trees are collected: the snapshot may be removed meanwhile.
    sandbox.merges.set(file, trees);
    return { file };
  });
}

/** The file of its own, whatever it lies on; `label` may be one that no client can say. @throws snapshot_not_found, layer_corrupt */
export async function openOwnFile(sandbox: Sandbox, label: SnapshotLabel): Promise<Opening> {
  const { world, row } = sandbox;
  findSnapshot(sandbox, label);
  return { file: openFile(world.files.snapshot(row.id, label), label) };
}

async function mergeTrees(
  { world, removal }: Sandbox,
  label: SnapshotLabel,
  trees: readonly LayerDigest[],
): Promise<FileHandle> {
  const path = world.files.temporary('whole');
  try {
    await world.driver.merge(trees, path, removal.signal);
    return await openFile(path, label);
  } finally {
    await rm(path, { force: true });
  }
}

async function openFile(path: string, label: SnapshotLabel): Promise<FileHandle> {
  try {
    return await open(path, 'r');
  } catch (cause) {
    throw new AppError('layer_corrupt', `Cannot read the file of snapshot "${label}": ${errorText(cause)}`, {
      cause,
    });
  }
}
