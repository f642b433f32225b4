/** What a snapshot consists of, so that it is known again wherever a copy of it lies. */
import { createHash } from 'node:crypto';
import { errorText } from '@squash/base/bug';
import { AppError } from '@squash/contract/errors';
import type { SnapshotLabel } from '@squash/contract/ids';
import { isRemoved, type SnapshotRow } from '#store/rows.ts';
import type { LocalPiece, LocalSnapshot } from './remote-snapshots.ts';
import type { Sandbox } from './sandbox.ts';
import { findSnapshot } from './snapshots.ts';
import { snapshotChain } from './stacking.ts';

/** Call in the sandbox's turn: files have their names. @throws snapshot_not_found, layer_corrupt */
export async function describeContent(sandbox: Sandbox, label: SnapshotLabel): Promise<LocalSnapshot> {
  const { row, snapshots } = sandbox;
  const snapshot = findSnapshot(sandbox, label);
  const pieces: LocalPiece[] = [];
  for (const each of snapshotChain(snapshots, label))
    pieces.push({ label: each.label, digest: each.digest ?? (await digestOf(sandbox, each.label)) });
  const below = pieces.slice(1);
  const isWhole = below.length === 0;
  const digests = pieces.map(({ digest }) => digest).join('\n');
  const content = isWhole ? digests : createHash('sha256').update(digests).digest('hex');
  return { sandbox: row, snapshot, content, isWhole, below };
}

/** Of those that it is to have, the labels that it has not yet. */
export function pushNew({ row, snapshots, world }: Sandbox, next: readonly SnapshotRow[]): void {
  for (const { label } of next) {
    if (isRemoved({ label }) || snapshots.some((each) => each.label === label)) continue;
    world.remote?.changed({ id: row.id, label });
  }
}

async function digestOf({ world, row }: Sandbox, label: SnapshotLabel): Promise<string> {
  try {
    return await world.layers.digestOf(world.files.snapshot(row.id, label));
  } catch (cause) {
    const text = `Cannot read the file of snapshot "${label}" of sandbox "${row.id}": ${errorText(cause)}`;
    throw new AppError('layer_corrupt', text, { cause });
  }
}
