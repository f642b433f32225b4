/**
 * Operations on a live sandbox's layers: activate, snapshot, restore. Each runs in the mailbox.
 *
 * The overlay can't be changed under running processes, so activate and restore end them and start PID 1 anew.
 * The row carries the intent before the first step. The new state is committed with the new instance's number;
 * before that commit everything is undone after a crash, behind it everything is completed. The old upper goes
 * only when the sandbox runs on the new one.
 */
import { AppError } from '@squash/contract/errors';
import { type ModuleName, type SnapshotLabel, snapshotLabelSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { faultPoint } from '#sandbox/fault.ts';
import type { SandboxRow, SnapshotRow } from '#store/rows.ts';
import type { PackResult } from '../drivers/driver.ts';
import type { SandboxChange } from '#store/sandboxes.ts';
import { checkPrograms } from './compatible.ts';
import { endLost } from './lost-commands.ts';
import type { Sandbox } from './sandbox.ts';
import { basisOf, indexToWrite, keepIndex } from './snapshot-index.ts';
import { findFiles } from './snapshot-intake.ts';
import { checkMemory, type MemoryStart } from './fork-memory.ts';
import { startOnMemory, withMemory } from './restore-memory.ts';
import { refuseHostRoot } from './host-root.ts';
import { readGivesUp, whileReadable } from './read-stopped.ts';
import { packWithMemory } from './snapshot-memory.ts';
import { checkFree, checkRoom, findSnapshot, sweepRemoved } from './snapshots.ts';
import { prefixOf, snapshotChain } from './stacking.ts';
import { bringMissing, checkLayerCount } from './trees.ts';
import { upperMade } from './upper-loss.ts';

/** @throws module_active, module_not_found, layer_corrupt, invalid_request, disk_full, launch_failed */
export async function activate(sandbox: Sandbox, module: ModuleName): Promise<void> {
  const { row, world } = sandbox;
  refuseHostRoot(row, 'have modules');
  if (row.layers.some((layer) => layer.module === module)) {
    throw new AppError(
      'module_active',
      `Cannot activate module "${module}": sandbox "${row.id}" is built on it already`,
    );
  }
  checkLayerCount(row.layers.length + 1);
  // Looked up and unpacked before anything is ended: a module that is missing or corrupt costs nobody a command.
  const digest = await world.layerLock.shared(() => world.layers.ensureModule(module));
  prefixOf(module);
  checkPrograms(world, [...row.layers, { module, digest }]);
  sandbox.change({ pending: { op: 'activate', module } });
  faultPoint('activate.pending');
  await replace(sandbox, { layers: [...row.layers, { module, digest }], pending: null });
  faultPoint('activate.started');
}

/**
 * The sandbox goes on with an empty upper on top of the snapshot, on the modules it had when that was taken: a
 * module activated later is gone again, as everything written later is. `onRestored` is called when it goes on; what was
 * written before is removed behind that, in the same turn. With memory also the processes of then go on.
 * @throws snapshot_not_found, layer_corrupt, disk_full, launch_failed, what `withMemory` does
 */
export async function restore(
  sandbox: Sandbox,
  { label, memory = false }: RestoreWish,
  onRestored: () => void = () => undefined,
): Promise<void> {
  refuseHostRoot(sandbox.row, 'be restored');
  const sought = await soughtSnapshot(sandbox, label);
  await bringMissing(sandbox, sought.layers);
  if (memory) await withMemory(sandbox, sought, (start) => restoreTo(sandbox, { sought, start }, onRestored));
  else await restoreTo(sandbox, { sought, start: undefined }, onRestored);
}

export interface RestoreWish {
  readonly label: SnapshotLabel;
  readonly memory?: boolean | undefined;
}

async function restoreTo(
  sandbox: Sandbox,
  { sought, start }: { readonly sought: SnapshotRow; readonly start: MemoryStart | undefined },
  onRestored: () => void,
): Promise<void> {
  const { row, world } = sandbox;
  const { label, layers } = sought;
  const activeSnapshot = start === undefined ? label : start.base;
  const generation = row.upperGeneration + 1;
  await world.layerLock.shared(() => sandbox.trees({ layers, activeSnapshot }));
  sandbox.change({ pending: { op: 'restore', label, generation } }, 'durably');
  faultPoint('restore.pending');
  try {
    await world.driver.createUpper({ ...row, upperGeneration: generation });
  } catch (error) {
    await dropUpper(sandbox, generation);
    throw error;
  }
  faultPoint('restore.upper');
  const old = { generation: row.upperGeneration, activeSnapshot: row.activeSnapshot };
  const change: SandboxChange = {
    layers,
    upperGeneration: generation,
    upperMadeMs: sandbox.nowMs(),
    // They were of the old one.
    warnings: row.warnings.filter(({ code }) => code !== upperMade.code),
    activeSnapshot,
    pending: { op: 'drop', ...old },
    lastActiveMs: sandbox.nowMs(),
  };
  await replace(sandbox, change, start);
  faultPoint('restore.started');
  onRestored();
  try {
    await dropUpper(sandbox, old.generation);
    faultPoint('restore.dropped');
    await sweepRemoved(sandbox);
  } catch (error) {
    // Whoever asked has his answer.
    world.log.warn('restore.drop', { sandbox: row.id, error });
    throw error;
  }
}

/** A file may have been put there a moment ago. @throws snapshot_not_found */
export async function soughtSnapshot(sandbox: Sandbox, label: SnapshotLabel): Promise<SnapshotRow> {
  if (!sandbox.snapshots.some((each) => each.label === label)) await findFiles(sandbox);
  return findSnapshot(sandbox, label);
}

const layersChanged = { type: 'sandbox.restarted', data: { reason: 'layers_changed' } } as const;

/** Ends what runs, starts on the change; where that fails, goes back to what was and says why. */
async function replace(sandbox: Sandbox, change: SandboxChange, memory?: MemoryStart): Promise<void> {
  const before = sandbox.row;
  const wasLeftAlone = sandbox.state.phase === 'failed';
  await sandbox.stop('layers_changed');
  if (wasLeftAlone) endLost(sandbox);
  faultPoint(change.activeSnapshot === undefined ? 'activate.stopped' : 'restore.stopped');
  try {
    if (memory === undefined) await sandbox.start(change, 'durably', layersChanged);
    else await startOnMemory(sandbox, memory, { change, event: layersChanged });
  } catch (error) {
    await goBack(sandbox, before);
    throw error;
  }
}

async function goBack(sandbox: Sandbox, before: SandboxRow): Promise<void> {
  const dropped = before.pending?.op === 'restore' ? before.pending.generation : undefined;
  try {
    await sandbox.world.driver.stop(before.id);
    // With the intent it came from, so that a crash from here on undoes as well.
    const { layers, upperGeneration, upperMadeMs, warnings, activeSnapshot, pending } = before;
    const back = { layers, upperGeneration, upperMadeMs, warnings, activeSnapshot, pending };
    await sandbox.start(back, 'durably', layersChanged);
    if (dropped === undefined) sandbox.change({ pending: null });
    else await dropUpper(sandbox, dropped);
  } catch (error) {
    sandbox.failed(error);
  }
}

/** Removes a generation that is not the row's, then clears the intent. */
export async function dropUpper(sandbox: Sandbox, generation: number): Promise<void> {
  if (generation === sandbox.row.upperGeneration) {
    throw new AppError(
      'internal',
      `Cannot drop upper ${generation} of sandbox "${sandbox.row.id}": it is in use`,
    );
  }
  await sandbox.world.driver.removeUpper(sandbox.row.id, generation);
  sandbox.change({ pending: null });
}

export interface SnapshotWish {
  /** None: `YYYYMMDD-HHMMSS`, UTC. */
  readonly label?: SnapshotLabel | undefined;
  readonly labels?: SnapshotRow['labels'];
  /** With its processes: see `snapshot-memory.ts`. */
  readonly memory?: boolean | undefined;
  /** Without it the sandbox's removal breaks it off, and of a microVM that is stopped the daemon's end. */
  readonly giveUp?: AbortSignal | undefined;
}

export interface Taken {
  readonly label: SnapshotLabel;
  readonly size: number;
  readonly pauseMs: number;
}

/** @throws snapshot_exists, invalid_request, disk_full; with memory unsupported_feature, vm_unsupported, sandbox_not_ready, guest_failed */
export async function snapshot(sandbox: Sandbox, wanted: SnapshotWish = {}): Promise<Taken> {
  const { world, row } = sandbox;
  refuseHostRoot(row, 'have snapshots, or be made an image of');
  const label = wanted.label ?? freshLabel(sandbox);
  const path = world.files.snapshot(row.id, label);
  checkRoom(sandbox);
  checkDepth(sandbox);
  if (wanted.memory === true) checkMemory(sandbox);
  await checkFree(sandbox, label);
  sandbox.change({ pending: { op: 'snapshot', label } });
  faultPoint('snapshot.pending');
  try {
    const basis = await basisOf(sandbox);
    const index = { write: await indexToWrite(sandbox), known: basis?.known };
    const source = { id: row.id, backend: row.backend, generation: row.upperGeneration, index };
    const giveUp =
      wanted.giveUp === undefined
        ? readGivesUp(sandbox)
        : AbortSignal.any([sandbox.removal.signal, wanted.giveUp]);
    const pack = (): Promise<PackResult> => world.driver.pack(source, path, giveUp);
    const { packed, memory, stillMs } =
      wanted.memory === true
        ? await packWithMemory(sandbox, label, pack)
        : {
            packed: await whileReadable(sandbox, () => sandbox.whileFrozen(pack), giveUp),
            memory: null,
            stillMs: 0,
          };
    faultPoint('snapshot.packed');
    const taken: SnapshotRow = {
      label,
      createdMs: sandbox.nowMs(),
      size: packed.bytes,
      digest: null,
      base: basis !== undefined && packed.isChange ? basis.base.label : row.activeSnapshot,
      layers: row.layers,
      labels: wanted.labels ?? {},
      memory,
    };
    sandbox.commitSnapshots({
      snapshots: [...sandbox.snapshots, taken],
      change: { pending: null },
      write: (table, id) => table.insertSnapshot(id, taken),
      event: { type: 'snapshot.created', data: { label, size: taken.size, from: 'sandbox' } },
    });
    faultPoint('snapshot.committed');
    if (packed.hasIndex) await keepIndex(sandbox, taken).catch((error: unknown) => logLost(sandbox, error));
    world.counters.snapshots += 1;
    void digestLater(sandbox, taken);
    return { label, size: packed.bytes, pauseMs: stillMs + packed.pauseUs / 1_000 };
  } catch (error) {
    await world.files.dropSnapshot(row.id, label);
    sandbox.change({ pending: null });
    throw error;
  }
}

/** The snapshot is taken; only the next one is larger than it had to be. */
function logLost({ world, row }: Sandbox, error: unknown): void {
  world.log.warn('snapshot.index', { sandbox: row.id, error });
}

function checkDepth(sandbox: Sandbox): void {
  const { id, activeSnapshot } = sandbox.row;
  const depth = activeSnapshot === null ? 0 : snapshotChain(sandbox.snapshots, activeSnapshot).length;
  if (depth >= limits.snapshotChainMax) {
    throw new AppError(
      'invalid_request',
      `Cannot take another snapshot of sandbox "${id}": it lies on ${depth} snapshots already: restore an earlier one`,
    );
  }
}

/** `YYYYMMDD-HHMMSS`, UTC; a second one in the same second gets a number. */
function freshLabel(sandbox: Sandbox): SnapshotLabel {
  const stamp = new Date(sandbox.nowMs())
    .toISOString()
    .replaceAll(/[-:]/g, '')
    .replace('T', '-')
    .slice(0, 15);
  const taken = new Set<string>(sandbox.snapshots.map((known) => known.label));
  let label = stamp;
  for (let copy = 2; taken.has(label); copy += 1) label = `${stamp}-${copy}`;
  return snapshotLabelSchema.parse(label);
}

/**
 * The file's digest, so that a later restore sees a file that changed on the disk, and need not read it before it unpacks. After
 * the answer: hashing 100 MB takes longer than a client should wait, and the file was written by us a moment ago.
 */
async function digestLater(sandbox: Sandbox, taken: SnapshotRow): Promise<void> {
  try {
    const digest = await sandbox.world.layers.digestOf(
      sandbox.world.files.snapshot(sandbox.row.id, taken.label),
    );
    // By now another one may have its label, or it may be kept under another name.
    const isThere = sandbox.snapshots.some(
      ({ label, createdMs }) => label === taken.label && createdMs === taken.createdMs,
    );
    if (isThere && sandbox.state.phase !== 'destroying') sandbox.setSnapshotDigest(taken, digest);
  } catch (error) {
    // Removed with its sandbox, most often. Without a digest the file is only checked for being a squashfs.
    sandbox.world.log.debug('snapshot.digest', { sandbox: sandbox.row.id, label: taken.label, error });
  }
}
