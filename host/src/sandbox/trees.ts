/**
 * From names to directories: the unpacked trees that a sandbox's overlay lies on, topmost first.
 *
 * A sandbox keeps the digests it was made with. A module that was replaced under the same name changes nothing
 * for it as long as the old tree is there; where that is gone as well, the sandbox can't be started and says so.
 */
import { AppError } from '@squash/contract/errors';
import type { LayerDigest } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { unlessAborted } from '@squash/base/unless-aborted';
import type { LayerUse } from '../layers/layer-store.ts';
import type { LayerRef, SandboxRow, SnapshotRow } from '#store/rows.ts';
import { snapshotChain, stackOrder, topmostOnly } from './stacking.ts';
import type { World } from './world.ts';

export interface Stack {
  readonly row: Pick<SandboxRow, 'id' | 'layers' | 'activeSnapshot'>;
  readonly snapshots: readonly SnapshotRow[];
  /**
   * Stores the digest of a snapshot that had none yet. Before anything runs on the tree: whoever collects unused
   * trees goes by the stored digests.
   */
  readonly setSnapshotDigest: (snapshot: SnapshotRow, digest: LayerDigest) => void;
  /** Aborted: nobody wants the trees any more. */
  readonly giveUp: AbortSignal;
}

/**
 * Topmost first; every tree is there when this resolves. Hold `layerLock` until the row names them.
 * @throws snapshot_not_found, layer_corrupt, module_not_found, disk_full
 */
export async function treesOf(world: World, stack: Stack): Promise<readonly LayerDigest[]> {
  const { row, snapshots } = stack;
  const chain = row.activeSnapshot === null ? [] : snapshotChain(snapshots, row.activeSnapshot);
  const trees = await Promise.all([
    ...chain.map((snapshot) => snapshotTree(world, stack, snapshot)),
    ...stackOrder(row.layers).map((layer) => moduleTree(world, layer)),
  ]);
  return topmostOnly(trees);
}

async function snapshotTree(world: World, stack: Stack, snapshot: SnapshotRow): Promise<LayerDigest> {
  const { row } = stack;
  const { digest } = snapshot;
  if (digest !== null && world.files.exists(world.files.layer(digest))) return digest;
  const path = world.files.snapshot(row.id, snapshot.label);
  if (!world.files.exists(path)) {
    throw new AppError(
      'layer_corrupt',
      `Cannot use snapshot "${snapshot.label}" of sandbox "${row.id}": its file is missing`,
    );
  }
  const { giveUp } = stack;
  if (digest !== null) return world.layers.ensureFile(path, { digest, giveUp });
  const found = await world.layers.ensureFile(path, { giveUp });
  stack.setSnapshotDigest(snapshot, found);
  return found;
}

/**
 * Brings modules whose trees are neither here nor to be made from what is here. Before `layerLock` is taken and a turn among
 * starts: a slow bucket must hold up nobody else. @throws bucket_unavailable, layer_corrupt, disk_full
 */
export async function bringMissing(
  { world, removal }: { readonly world: World; readonly removal: AbortController },
  layers: readonly LayerRef[],
): Promise<void> {
  if (world.remote === undefined) return;
  const missing = layers.filter(({ digest }) => !world.files.exists(world.files.layer(digest)));
  if (missing.length === 0) return;
  // A download goes on for whoever else waits for it; a removal does not wait for it.
  await unlessAborted(world.bringModules(missing.map(({ module }) => module)), removal.signal);
}

async function moduleTree(world: World, layer: LayerRef): Promise<LayerDigest> {
  if (world.files.exists(world.files.layer(layer.digest))) return layer.digest;
  const digest = await world.layers.ensureModule(layer.module);
  if (digest === layer.digest) return digest;
  throw new AppError(
    'layer_corrupt',
    `Cannot use module "${layer.module}": the sandbox was made with ${layer.digest.slice(0, 12)}, the file under this name is now ${digest.slice(0, 12)}: import the old file again`,
  );
}

interface StackedSandbox {
  readonly row: SandboxRow;
  readonly snapshots: readonly SnapshotRow[];
  /** What is read of it besides, by work that its rows need not outlive. */
  readonly merges: ReadonlyMap<unknown, readonly LayerDigest[]>;
}

/**
 * The trees that must stay: what a sandbox stands on, and whatever could not be unpacked again. Not those of snapshots that
 * lie beside it. Those of its snapshots' modules stay, for another file may have their name by now.
 */
export function layersStoodOn(
  sandboxes: Iterable<StackedSandbox>,
  files: Pick<World['files'], 'exists' | 'snapshot'>,
): ReadonlySet<LayerDigest> {
  const stoodOn = [...sandboxes].map(({ row, snapshots, merges }) => {
    const stack = stackedSnapshots(row, snapshots);
    const isKept = (snapshot: SnapshotRow): boolean =>
      stack.includes(snapshot) || !files.exists(files.snapshot(row.id, snapshot.label));
    return {
      row,
      merges,
      snapshots: snapshots.map((snapshot) => (isKept(snapshot) ? snapshot : { ...snapshot, digest: null })),
    };
  });
  return layersInUse(stoodOn).trees;
}

/** All of them where it can't be told: a sandbox may have failed because one of its snapshots is lost. */
function stackedSnapshots(row: SandboxRow, snapshots: readonly SnapshotRow[]): readonly SnapshotRow[] {
  // A saved memory goes on from nothing but the very disks that it was saved on.
  const saved = snapshots.flatMap(({ memory, base }) => (memory === null ? [] : [base]));
  const tops = new Set([row.activeSnapshot, ...saved]);
  try {
    return [...tops].flatMap((top) => (top === null ? [] : snapshotChain(snapshots, top)));
  } catch {
    return snapshots;
  }
}

/** Every module and every tree that some sandbox needs. */
export function layersInUse(sandboxes: Iterable<StackedSandbox>): LayerUse {
  const modules: LayerRef[] = [];
  const trees = new Set<LayerDigest>();
  for (const { row, snapshots, merges } of sandboxes) {
    for (const digest of [...merges.values()].flat()) trees.add(digest);
    if (row.trust !== null) trees.add(row.trust);
    modules.push(...row.layers);
    for (const snapshot of snapshots) {
      modules.push(...snapshot.layers);
      if (snapshot.memory !== null && snapshot.memory.trust !== null) trees.add(snapshot.memory.trust);
      if (snapshot.digest !== null) trees.add(snapshot.digest);
    }
  }
  for (const { digest } of modules) trees.add(digest);
  return { modules, trees };
}

/** @throws invalid_request where the overlay would get too deep */
export function checkLayerCount(count: number): void {
  if (count <= limits.layersMax) return;
  throw new AppError(
    'invalid_request',
    `Cannot stack ${count} modules: a sandbox holds at most ${limits.layersMax}`,
  );
}
