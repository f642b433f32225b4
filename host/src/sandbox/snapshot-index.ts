/**
 * Which snapshot a new one lies on, so that it holds no more than what changed since.
 *
 * At each snapshot the driver writes an index of the upper, and with it tells later what differs. It belongs to one row,
 * which its name says; it gets that name when the row is there, and is gone before the row or its label is, so none is ever taken for
 * that of another snapshot: one that comes from a bucket may say what it likes of itself. It is only kept for speed: without it the next snapshot is a whole one. It fits the same upper on the same
 * modules, on the same start of the machine.
 */
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isErrno } from '@squash/base/errno';
import type { SnapshotRow } from '#store/rows.ts';
import type { Sandbox } from './sandbox.ts';
import { snapshotChain } from './stacking.ts';

/** So many lie on each other at most: each is a layer of whoever is restored. */
const changesMax = 8;
/** With those that the sandbox itself lies on. Far below `snapshotChainMax`, so that restores go on for long. */
const chainMax = 16;

export interface Basis {
  readonly base: SnapshotRow;
  /** Where its index lies. */
  readonly known: string;
}

const directoryOf = ({ world, row }: Sandbox): string => join(world.files.directory(row.id), 'indexes');
const unfinished = (sandbox: Sandbox): string => join(directoryOf(sandbox), 'new');

function nameOf(generation: number, { createdMs, size, label }: SnapshotRow): string {
  return `${generation}-${createdMs}-${size}-${label}`;
}

async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return [];
    throw error;
  }
}

/** Those that the present upper has gone through since the sandbox was put on what it lies on; the last one first. */
function chainOf({ row, snapshots }: Sandbox, last: SnapshotRow): readonly SnapshotRow[] | undefined {
  const chain = snapshotChain(snapshots, last.label);
  const bottom = chain.findIndex(({ base }) => base === row.activeSnapshot);
  return bottom === -1 ? undefined : chain.slice(0, bottom + 1);
}

function hasModulesOf(sandbox: Sandbox, { layers }: SnapshotRow): boolean {
  const { row } = sandbox;
  return (
    layers.length === row.layers.length &&
    layers.every(({ module, digest }, at) => {
      const own = row.layers[at];
      return own?.module === module && own.digest === digest;
    })
  );
}

/** Undefined: the next one is whole. */
export async function basisOf(sandbox: Sandbox): Promise<Basis | undefined> {
  const { row, snapshots } = sandbox;
  const directory = directoryOf(sandbox);
  const names = new Set(await namesIn(directory));
  const fitting = snapshots
    .filter((each) => names.has(nameOf(row.upperGeneration, each)) && hasModulesOf(sandbox, each))
    .toSorted((one, other) => other.createdMs - one.createdMs);
  for (const last of fitting) {
    const chain = chainOf(sandbox, last);
    if (chain === undefined) continue;
    const below = row.activeSnapshot === null ? 0 : snapshotChain(snapshots, row.activeSnapshot).length;
    if (below + 2 > chainMax) return undefined;
    const base = chain.length < changesMax && chain.length + below < chainMax ? last : chain.at(-1);
    if (base === undefined || !fitting.includes(base)) return undefined;
    return { base, known: join(directory, nameOf(row.upperGeneration, base)) };
  }
  return undefined;
}

/** Before a row of this label is another, or none. */
export async function dropIndex(sandbox: Sandbox, snapshot: SnapshotRow): Promise<void> {
  await rm(join(directoryOf(sandbox), nameOf(sandbox.row.upperGeneration, snapshot)), { force: true });
}

/** Where the driver is to write the next one. */
export async function indexToWrite(sandbox: Sandbox): Promise<string> {
  await mkdir(directoryOf(sandbox), { recursive: true, mode: 0o700 });
  return unfinished(sandbox);
}

/** The one just written is that of this row, which is in the store. It and the whole one at the bottom stay, no others. */
export async function keepIndex(sandbox: Sandbox, taken: SnapshotRow): Promise<void> {
  const { row } = sandbox;
  const directory = directoryOf(sandbox);
  await rename(unfinished(sandbox), join(directory, nameOf(row.upperGeneration, taken)));
  const bottom = chainOf(sandbox, taken)?.at(-1) ?? taken;
  const kept = [taken, bottom].map((each) => nameOf(row.upperGeneration, each));
  for (const name of await namesIn(directory)) {
    if (!kept.includes(name)) await rm(join(directory, name), { force: true });
  }
}
