/**
 * Snapshots as things of their own: listed, removed, sent whole, taken in. All but looking runs in the mailbox.
 *
 * What a newcomer would get wrong: a snapshot that was taken after a restore lies on the one that was restored, and so
 * does the sandbox itself. A removed one that something lies on keeps its file and its row under a label that no client
 * can say, and goes with the last that needs it.
 */
import { type FileHandle, open, rm } from 'node:fs/promises';
import { AppError } from '@squash/contract/errors';
import { type LayerDigest, type SnapshotLabel, snapshotLabelSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { SnapshotDetails, SnapshotPatch } from '@squash/contract/native-snapshot';
import { errorText } from '@squash/base/bug';
import { rfc3339 } from '@squash/base/clock';
import { faultPoint } from '#sandbox/fault.ts';
import { isRemoved, removedLabel, type SnapshotRow } from '#store/rows.ts';
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
  const { label, labels, createdMs, size, base } = snapshot;
  const isBaseThere = base !== null && !isRemoved({ label: base });
  return {
    label,
    labels: { ...labels },
    created_at: rfc3339(createdMs),
    size_bytes: size,
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
  await world.files.linkSnapshot(row.id, from, to);
  faultPoint(`${as}.linked`);
  const renamed = <T extends SnapshotLabel | null>(each: T): T | SnapshotLabel => (each === from ? to : each);
  sandbox.commitSnapshots({
    snapshots: snapshots.map((each) => ({ ...each, label: renamed(each.label), base: renamed(each.base) })),
    change: { activeSnapshot: renamed(row.activeSnapshot), pending: { op: 'snapshot', label: from } },
    write: (table, id) => table.renameSnapshot(id, from, to),
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

/** A whole file, and what is known of it; else it counts as taken now, with the modules of now. */
export interface TakenIn {
  readonly path: string;
  readonly createdMs?: number | undefined;
  readonly layers?: SnapshotRow['layers'] | undefined;
  readonly labels?: SnapshotRow['labels'] | undefined;
}

/**
 * Takes over the squashfs file at its path, which is proven by unpacking it.
 * @throws snapshot_exists, snapshot_invalid, invalid_request, disk_full
 */
export async function takeInSnapshot(
  sandbox: Sandbox,
  label: SnapshotLabel,
  { path: hostPath, ...known }: TakenIn,
): Promise<SnapshotDetails> {
  const { world, row } = sandbox;
  checkRoom(sandbox);
  await checkFree(sandbox, label);
  sandbox.change({ pending: { op: 'snapshot', label } });
  faultPoint('snapshot-upload.pending');
  try {
    const size = await world.files.takeSnapshot(row.id, label, hostPath);
    faultPoint('snapshot-upload.placed');
    await world.layerLock.shared(async () => {
      const path = world.files.snapshot(row.id, label);
      const digest = await world.layers
        .ensureFile(path, { giveUp: sandbox.removal.signal })
        .catch((error: unknown) => refuseFile(error, label));
      const { createdMs = sandbox.nowMs(), layers = row.layers, labels = {} } = known;
      insert(sandbox, { label, createdMs, size, digest, labels, base: null, layers }, 'upload');
    });
  } catch (error) {
    await world.files.dropSnapshot(row.id, label);
    sandbox.change({ pending: null }, 'pressing');
    throw error;
  }
  return getSnapshot(sandbox, label);
}

/** In the words of whoever sent it: where it lies here means nothing to him. */
function refuseFile(error: unknown, label: SnapshotLabel): never {
  if (!(error instanceof AppError) || error.code !== 'layer_corrupt') throw error;
  const what = `the file sent for snapshot ${JSON.stringify(label)}`;
  const message = error.message.replace(/"[^"]*\.squashfs"/, what);
  throw new AppError('snapshot_invalid', message, { cause: error });
}

function insert(sandbox: Sandbox, snapshot: SnapshotRow, from: 'upload' | 'directory'): void {
  const { label, size } = snapshot;
  sandbox.commitSnapshots({
    snapshots: [...sandbox.snapshots, snapshot],
    change: { pending: null },
    write: (table, id) => table.insertSnapshot(id, snapshot),
    event: { type: 'snapshot.created', data: { label, size, from } },
  });
}

/**
 * Takes in the files that somebody put into the sandbox's `snapshots/` directory, and removes those that a crash has
 * left there. They count as whole, and as taken with the modules of now; what is in them is looked at by `restore`.
 */
export async function findFiles(sandbox: Sandbox): Promise<void> {
  const { world, row } = sandbox;
  for (const { name, size, modifiedMs } of await world.files.snapshotFiles(row.id)) {
    if (sandbox.snapshots.some((each) => each.label === name)) continue;
    const label = snapshotLabelSchema.safeParse(name);
    if (label.success && sandbox.snapshots.length < limits.snapshotsMax) {
      const found = { label: label.data, createdMs: modifiedMs, size, digest: null, base: null };
      insert(sandbox, { ...found, layers: row.layers, labels: {} }, 'directory');
      world.log.info('snapshot.found', { sandbox: row.id, label: label.data });
    } else if (/~\d+$/.test(name)) {
      await world.files.dropSnapshot(row.id, name as SnapshotLabel);
    }
  }
}
