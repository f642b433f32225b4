/**
 * What was added, changed and removed between two snapshots, or since one.
 *
 * Sandboxes made both sides: their trees are walked by the launcher, and what it tells of them (paths are any bytes) is
 * text here before it goes anywhere. A page is told from the path behind which the page before ended, so nothing is kept
 * between two of them.
 */
import { AppError } from '@squash/contract/errors';
import { fileTypes } from '@squash/contract/guest/frames';
import type { SnapshotLabel } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { type Difference, type DiffPage, differenceSchema } from '@squash/contract/native-snapshot';
import type { DiffResult, DiffSides } from '../drivers/driver.ts';
import { soughtSnapshot } from './layering.ts';
import { isUnreadable, readGivesUp, whileReadable } from './read-stopped.ts';
import type { Sandbox } from './sandbox.ts';

export interface DiffQuery {
  /** `base`, `current`, or the label of another snapshot. */
  readonly against: string;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

/** In an object, because the sandbox's turn does not wait for it. */
interface Asking {
  readonly from: string;
  readonly to: string;
  readonly result: Promise<DiffResult>;
}

/** Call in the sandbox's turn. @throws snapshot_not_found, layer_corrupt, invalid_request, disk_full, what `whileReadable` does */
export async function askDiff(sandbox: Sandbox, label: SnapshotLabel, query: DiffQuery): Promise<Asking> {
  if (query.against !== 'current' || !isUnreadable(sandbox)) return await ask(sandbox, label, query);
  // What is refused needs no guest.
  if (query.cursor !== undefined) parseCursor(query.cursor);
  await soughtSnapshot(sandbox, label);
  return await whileReadable(sandbox, async () => {
    const asking = await ask(sandbox, label, query);
    await asking.result;
    return asking;
  });
}

async function ask(sandbox: Sandbox, label: SnapshotLabel, query: DiffQuery): Promise<Asking> {
  const { world } = sandbox;
  const after = query.cursor === undefined ? undefined : parseCursor(query.cursor);
  const sides = await sidesOf(sandbox, label, query.against);
  return world.layerLock.shared(async () => {
    const newer = await sandbox.trees(sides.newer);
    const older = await sandbox.trees(sides.older);
    const { upper } = sides;
    const entriesMax = query.limit ?? limits.diffItemsDefault;
    const result = world.driver
      .diff({ upper, newer, older, after, entriesMax }, readGivesUp(sandbox))
      .finally(() => sandbox.merges.delete(result));
    // Before the lock goes, behind which unused trees are collected: the snapshot may be removed meanwhile.
    sandbox.merges.set(result, [...newer, ...older]);
    return { from: sides.from, to: sides.to, result };
  });
}

type Stack = Pick<Sandbox['row'], 'layers' | 'activeSnapshot'>;

interface Sides {
  readonly from: string;
  readonly to: string;
  readonly older: Stack;
  readonly newer: Stack;
  readonly upper: DiffSides['upper'];
}

async function sidesOf(sandbox: Sandbox, label: SnapshotLabel, against: string): Promise<Sides> {
  const { row } = sandbox;
  const named = async (each: string): Promise<Stack> => {
    const { layers, label: found } = await soughtSnapshot(sandbox, each as SnapshotLabel);
    return { layers, activeSnapshot: found };
  };
  const snapshot = await named(label);
  if (against === 'current') {
    const upper = { id: row.id, backend: row.backend, generation: row.upperGeneration };
    return { from: label, to: against, older: snapshot, newer: row, upper };
  }
  const older = against === 'base' ? { ...snapshot, activeSnapshot: null } : await named(against);
  return { from: against, to: label, older, newer: snapshot, upper: undefined };
}

export async function diffPage({ from, to, result }: Asking): Promise<DiffPage> {
  const { entries, next } = await result;
  return {
    from,
    to,
    items: entries.map(differenceOf),
    next: next === undefined ? null : Buffer.from(next).toString('base64url'),
  };
}

const typeNames = new Map<number, string>(Object.entries(fileTypes).map(([name, number]) => [number, name]));

export function differenceOf({
  change,
  path,
  fileType,
  mode,
  size,
}: DiffResult['entries'][number]): Difference {
  return differenceSchema.parse({
    change,
    path: `/${Buffer.from(path).toString('utf8')}`,
    type: typeNames.get(fileType),
    mode: mode.toString(8).padStart(4, '0'),
    size_bytes: size,
  });
}

export function parseCursor(cursor: string): Uint8Array {
  const path = Buffer.from(cursor, 'base64url');
  if (path.length > 0 && path.length < limits.diffCursorBytesMax && !path.includes(0)) return path;
  throw new AppError('invalid_request', 'cursor: take `next` of the page before as it is');
}
