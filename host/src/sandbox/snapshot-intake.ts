/**
 * Snapshots that come as files: sent by somebody, brought from a bucket, or put there by hand. All runs in the mailbox.
 *
 * One from a bucket may come with what it lies on. That gets labels that no client can say, as if it had been removed here, and
 * goes with what lies on it.
 */
import { AppError } from '@squash/contract/errors';
import { type SnapshotLabel, snapshotLabelSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { SnapshotDetails } from '@squash/contract/native-snapshot';
import { faultPoint } from '#sandbox/fault.ts';
import { isRemoved, removedLabel, type SnapshotRow } from '#store/rows.ts';
import type { FetchedPiece } from './remote-snapshots.ts';
import { refuseHostRoot } from './host-root.ts';
import type { Sandbox } from './sandbox.ts';
import { checkFree, checkRoom, getSnapshot, sweepRemoved } from './snapshots.ts';

/** A file, and what is known of it; else it counts as taken now, with the modules of now. */
export interface TakenIn {
  readonly path: string;
  /** What it lies on, the lowest first; none: it is whole. */
  readonly below?: readonly FetchedPiece[];
  readonly createdMs?: number | undefined;
  readonly layers?: SnapshotRow['layers'] | undefined;
  readonly labels?: SnapshotRow['labels'] | undefined;
}

/**
 * Takes over the squashfs files, which are proven by unpacking them.
 * @throws snapshot_exists, snapshot_invalid, invalid_request, disk_full
 */
export async function takeInSnapshot(
  sandbox: Sandbox,
  label: SnapshotLabel,
  { path, below = [], ...known }: TakenIn,
): Promise<SnapshotDetails> {
  const { createdMs = sandbox.nowMs(), layers = sandbox.row.layers, labels = {} } = known;
  const facts = { createdMs, layers, labels, memory: null };
  refuseHostRoot(sandbox.row, 'have snapshots');
  checkRoom(sandbox);
  await checkFree(sandbox, label);
  let base: SnapshotLabel | null = null;
  try {
    for (const piece of below) base = await takePiece(sandbox, piece, { ...facts, label, base });
    await takeFile(sandbox, path, { ...facts, label, base });
  } catch (error) {
    await sweepRemoved(sandbox);
    throw error;
  }
  return getSnapshot(sandbox, label);
}

/** Under the label of one that is here already, where there is one. */
async function takePiece(
  sandbox: Sandbox,
  { path, digest }: FetchedPiece,
  known: Omit<SnapshotRow, 'size' | 'digest'>,
): Promise<SnapshotLabel> {
  const here = sandbox.snapshots.find((each) => each.base === known.base && each.digest === digest);
  if (here !== undefined) return here.label;
  const label = hiddenLabel(sandbox, known.label);
  await takeFile(sandbox, path, { ...known, label, labels: {} });
  return label;
}

/** As of one that was removed while something lies on it. */
function hiddenLabel({ snapshots }: Sandbox, label: SnapshotLabel): SnapshotLabel {
  for (let number = 1; ; number += 1) {
    const hidden = removedLabel(label, number);
    if (!snapshots.some((each) => each.label === hidden)) return hidden;
  }
}

async function takeFile(
  sandbox: Sandbox,
  hostPath: string,
  known: Omit<SnapshotRow, 'size' | 'digest'>,
): Promise<void> {
  const { world, row } = sandbox;
  const { label } = known;
  checkRoom(sandbox);
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
      insert(sandbox, { ...known, size, digest }, 'upload');
    });
  } catch (error) {
    await world.files.dropSnapshot(row.id, label);
    sandbox.change({ pending: null }, 'pressing');
    throw error;
  }
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
    event: isRemoved(snapshot) ? undefined : { type: 'snapshot.created', data: { label, size, from } },
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
      insert(sandbox, { ...found, layers: row.layers, labels: {}, memory: null }, 'directory');
      world.log.info('snapshot.found', { sandbox: row.id, label: label.data });
    } else if (/~\d+$/.test(name)) {
      await world.files.dropSnapshot(row.id, name as SnapshotLabel);
    }
  }
}
