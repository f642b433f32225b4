/**
 * The order of a sandbox's layers in its overlay.
 *
 * Layers of an OCI image (`oci-…`) lie lowest, in the image's order, which is the row's. Above them
 * the name decides, not the request's order: the highest number lies on top, and of two with the same number the name
 * that sorts later, byte by byte, as the original's shell version has it. The active snapshot lies above all modules, and above the snapshot it
 * was taken on: a snapshot holds one upper, so the ones below it in the chain are part of what was there.
 */
import { AppError } from '@squash/contract/errors';
import {
  type LayerDigest,
  isImageLayer,
  type ModuleName,
  type SnapshotLabel,
  vmModule,
} from '@squash/contract/ids';
import type { LayerRef, SnapshotRow } from '#store/rows.ts';

const stackable = /^(\d{3})-./;

/** Where a module stands in the stack. @throws invalid_request for a name without `NNN-`, and for what virtual machines start from */
export function prefixOf(module: ModuleName): number {
  if (module === vmModule) {
    throw new AppError(
      'invalid_request',
      `Cannot stack module "${module}": virtual machines start from it, it is no layer of a sandbox: leave it out`,
    );
  }
  const match = stackable.exec(module);
  if (match === null) {
    throw new AppError(
      'invalid_request',
      `Cannot stack module "${module}": its name does not begin with three digits and "-", which say where it lies: import it as "NNN-${module}"`,
    );
  }
  return Number(match[1]);
}

/**
 * One that comes twice counts where it lies highest: there it says again all that it says below, and the kernel refuses an overlay
 * of it twice. Topmost first.
 */
export function topmostOnly(trees: readonly LayerDigest[]): readonly LayerDigest[] {
  return [...new Set(trees)];
}

/** Topmost first. */
export function stackOrder(layers: readonly LayerRef[]): readonly LayerRef[] {
  const ofImage = layers.filter(({ module }) => isImageLayer(module));
  const numbered = layers.filter(({ module }) => !isImageLayer(module));
  for (const { module } of numbered) prefixOf(module);
  // Three digits each: the order of whole names is that of the numbers.
  return [
    ...numbered.toSorted((one, other) => (one.module < other.module ? 1 : -1)),
    ...ofImage.toReversed(),
  ];
}

/** The snapshot and what it was taken on, topmost first. @throws snapshot_not_found */
export function snapshotChain(
  snapshots: readonly SnapshotRow[],
  label: SnapshotLabel,
): readonly SnapshotRow[] {
  const chain: SnapshotRow[] = [];
  for (let next: SnapshotLabel | null = label; next !== null; ) {
    const wanted: SnapshotLabel = next;
    const found = snapshots.find((snapshot) => snapshot.label === wanted);
    // A snapshot can only be based on one that was there before it, so a chain longer than the list is a loop.
    if (found === undefined || chain.length > snapshots.length) {
      throw new AppError('snapshot_not_found', `Cannot find snapshot "${wanted}"`);
    }
    chain.push(found);
    next = found.base;
  }
  return chain;
}
