/**
 * A sandbox made from another one's files: those of a snapshot, or as they are now, while it runs.
 *
 * Nothing is copied. A snapshot's file is linked into the new sandbox's directory, with those it lies on; what was written
 * since the last one is saved there as a snapshot would be. So the two share what neither changes, and each goes without
 * the other. All that needs the source happens in its turn; the start does not.
 */
import type { SandboxImage } from '@squash/contract/image';
import { rm } from 'node:fs/promises';
import { AppError } from '@squash/contract/errors';
import { type SnapshotLabel, snapshotLabelSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { CreateRequest, CreateWish } from '@squash/contract/sandbox';
import { faultPoint } from '#sandbox/fault.ts';
import { removedLabel, type SandboxRow, type SnapshotRow } from '#store/rows.ts';
import { draftRow, withSavedImage } from './draft.ts';
import { checkMemoryFork, dropMemory, type MemoryStart, saveMemory } from './fork-memory.ts';
import { refuseHostRoot } from './host-root.ts';
import { soughtSnapshot } from './layering.ts';
import { checkMounts } from './mounts.ts';
import { readGivesUp, whileReadable } from './read-stopped.ts';
import { removeSandbox } from './remove.ts';
import { Sandbox } from './sandbox.ts';
import { heldMemory } from './snapshot-memory.ts';
import { snapshotChain } from './stacking.ts';
import type { World } from './world.ts';

/** What a client sees of where it came from: the snapshot to go back to the start with. */
const originLabel = snapshotLabelSchema.parse('origin');

interface Piece {
  readonly row: SnapshotRow;
  /** The file: the source's snapshot of the same content, or what was saved just now. */
  readonly from: SnapshotLabel | 'saved';
}

interface Forked {
  readonly made: Sandbox;
  readonly memory: MemoryStart | undefined;
}

export interface Forking {
  readonly world: World;
  readonly request: CreateRequest;
  readonly source: Sandbox;
  readonly snapshot: SnapshotLabel | undefined;
  /** With its processes: see `fork-memory.ts`. */
  readonly memory: boolean;
}

/**
 * Call in the source's turn.
 * @param register called once the row exists
 * @throws snapshot_not_found, disk_full, sandbox_not_ready
 */
export async function forkFiles(forking: Forking, register: (made: Sandbox) => void): Promise<Forked> {
  const { source, snapshot } = forking;
  if (snapshot !== undefined) await soughtSnapshot(source, snapshot);
  if (forking.memory) {
    const memory = await (snapshot === undefined ? saveMemory(source) : heldMemory(source, snapshot));
    try {
      return { made: await forkPieces(forking, { memory }, register), memory };
    } catch (error) {
      await dropMemory(memory);
      throw error;
    }
  }
  const saved = snapshot === undefined ? await saveWritten(source) : undefined;
  return { made: await forkPieces(forking, { saved }, register), memory: undefined };
}

async function forkPieces(
  forking: Forking,
  { saved, memory }: { readonly saved?: Saved | undefined; readonly memory?: MemoryStart },
  register: (made: Sandbox) => void,
): Promise<Sandbox> {
  const { world, source, snapshot } = forking;
  try {
    const start = memory === undefined ? (snapshot ?? source.row.activeSnapshot) : memory.base;
    const pieces = piecesOf(source, start, saved);
    const made = await world.layerLock.shared(async () => {
      const fork = insert(forking, pieces, memory?.like);
      // Still under the lock: who collects unused trees asks the registered sandboxes what they use.
      register(fork);
      return fork;
    });
    faultPoint('fork.inserted');
    // In its own turn: whoever removes it meanwhile waits.
    await made.mailbox.post(() => takePieces(made, { source, pieces, saved }));
    faultPoint('fork.taken');
    return made;
  } finally {
    if (saved !== undefined) await rm(saved.path, { force: true });
  }
}

interface Saved {
  readonly path: string;
  readonly bytes: number;
}

async function saveWritten(source: Sandbox): Promise<Saved> {
  const { world, row } = source;
  const path = world.files.temporary('fork');
  const upper = { id: row.id, backend: row.backend, generation: row.upperGeneration };
  const giveUp = readGivesUp(source);
  const pack = () => world.driver.pack(upper, path, giveUp);
  const packed = await whileReadable(source, () => source.whileFrozen(pack), giveUp);
  return { path, bytes: packed.bytes };
}

function insert(forking: Forking, pieces: readonly Piece[], like: MemoryStart['like'] | undefined): Sandbox {
  const rows = pieces.map((piece) => piece.row).toReversed();
  if (like === undefined) return insertStacked(forking, rows, originLabel);
  return insertStacked({ ...forking, like }, rows, rows.length === 0 ? null : originLabel);
}

/** A new sandbox on the last of these snapshots, whose files are still to be put into its directory. Hold `layerLock`. */
export function insertStacked(
  {
    world,
    request,
    image,
    like,
  }: Pick<Forking, 'world' | 'request'> & {
    readonly image?: SandboxImage | undefined;
    readonly like?: Pick<SandboxRow, 'layers' | 'trust' | 'limits'>;
  },
  rows: readonly SnapshotRow[],
  activeSnapshot: SnapshotLabel | null,
): Sandbox {
  const layers = rows.at(-1)?.layers ?? [];
  const draft = {
    ...withSavedImage(draftRow(world, request), image, world.driver),
    layers: [...layers],
    trust: null,
    activeSnapshot,
    ...like,
  };
  checkMounts(world, draft.mounts, draft.mounts);
  const { store } = world;
  // On the disk before its directory: that holds files which nobody could tell apart from somebody's work.
  const row = store.durably(() => {
    const hostLabel = store.sandboxes.freeHostLabel(draft.id);
    const numbered = { ...draft, hostLabel, instance: store.sandboxes.nextInstance() };
    store.sandboxes.insert(numbered);
    for (const each of rows) store.sandboxes.insertSnapshot(numbered.id, each);
    const once = request.native?.once;
    if (once !== undefined) {
      store.idempotency.add(once, { sandbox: numbered.id, seq: null }, world.clock.wallMs());
    }
    return numbered;
  });
  return new Sandbox(world, row, rows);
}

async function takePieces(
  made: Sandbox,
  { source, pieces, saved }: { source: Sandbox; pieces: readonly Piece[]; saved: Saved | undefined },
): Promise<void> {
  const { files } = made.world;
  const { id } = made.row;
  try {
    files.make(id);
    for (const { row, from } of pieces) {
      if (from !== 'saved')
        await files.shareSnapshot(files.snapshot(source.row.id, from), { id, label: row.label });
      else if (saved !== undefined) await files.takeSnapshot(id, row.label, saved.path);
    }
    if (pieces.length > 0) made.world.remote?.changed({ id, label: originLabel });
  } catch (error) {
    await removeSandbox(made);
    throw error;
  }
}

/** Topmost first. What lies beneath keeps names that no client can say: it is there as long as it is needed. */
function piecesOf(
  { row, snapshots, world }: Sandbox,
  start: SnapshotLabel | null,
  saved: Saved | undefined,
): readonly Piece[] {
  const chain = start === null ? [] : snapshotChain(snapshots, start);
  const pieces: Piece[] = chain.map((each) => ({ row: each, from: each.label }));
  if (saved !== undefined) {
    const { layers } = row;
    const written = {
      createdMs: world.clock.wallMs(),
      size: saved.bytes,
      digest: null,
      base: null,
      layers,
      labels: {},
      memory: null,
    };
    pieces.unshift({ row: { ...written, label: originLabel }, from: 'saved' });
  }
  if (pieces.length > limits.snapshotChainMax) {
    throw new AppError(
      'invalid_request',
      `Cannot make a sandbox from "${row.id}": it lies on ${chain.length} snapshots already`,
    );
  }
  const labelAt = (at: number): SnapshotLabel => (at === 0 ? originLabel : removedLabel(originLabel, at));
  return pieces.map(({ row: piece, from }, at) => ({
    row: {
      ...piece,
      label: labelAt(at),
      base: at === pieces.length - 1 ? null : labelAt(at + 1),
      labels: {},
      // The files alone go along.
      memory: null,
    },
    from,
  }));
}

/** What a fork takes along of the one it is made from, where nobody says otherwise. Secrets of its own stay with it. @throws host_root_unsupported */
export function inherited(wish: CreateWish, source: Sandbox): CreateWish {
  const { row } = source;
  refuseHostRoot(row, 'be forked');
  const model = checkMemoryFork(wish, source);
  const { native } = wish;
  if (native === undefined) return wish;
  const policy = wish.policy ?? row.policy ?? undefined;
  return {
    ...wish,
    cpu: wish.cpu ?? model.cpu,
    memoryMb: wish.memoryMb ?? model.memoryMb,
    policy,
    allowNet: policy === undefined ? (row.allowNet ?? undefined) : undefined,
    secrets: native.secrets ?? row.secrets,
    upstream: wish.upstream ?? row.upstream ?? undefined,
    backend: wish.backend ?? row.backend,
    native: {
      ...native,
      image: row.image ?? undefined,
      env: { ...row.env, ...native.env },
      processesMax: native.processesMax ?? row.limits.pidsMax,
    },
  };
}
