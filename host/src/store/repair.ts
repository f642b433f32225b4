/**
 * Rebuilds the database from what lies on the disk, for `squash doctor --repair`. Hold the data lock.
 *
 * Sandboxes come from their `sandbox.json`, snapshots from there and from the files that are there; commands are
 * saved from the old database as far as it can be read. The old file is kept aside. No upper, layer or snapshot
 * is touched. A sound database is left in place and only takes in sandboxes that it does not know.
 */
import { existsSync, readdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { sandboxIdSchema, snapshotLabelSchema } from '@squash/contract/ids';
import { AppError } from '@squash/contract/errors';
import { errorText } from '@squash/base/bug';
import { openDatabase } from './database.ts';
import type { SandboxRow, SnapshotRow } from './rows.ts';
import { type Salvage, salvageExecs } from './salvage.ts';
import { readSandboxFile, type SandboxFile } from './sandbox-file.ts';
import { SandboxTable } from './sandboxes.ts';

export interface RepairReport {
  /** Where the unreadable database was put; undefined where it was sound. */
  readonly keptAside: string | undefined;
  readonly sandboxes: readonly string[];
  readonly execs: number;
  /** What could not be taken in, and why. */
  readonly problems: readonly string[];
}

/** `sandbox.json` lags behind the exec log by less than this many commands. */
export const shadowExecsMax = 64;
/** Instance numbers that the lost database may have given out after the last `sandbox.json` was written. */
const instanceMargin = 1_000;

/** @throws disk_full, database_corrupt where even a new file can't be made */
export async function repairDatabase(dataDir: string, nowMs: number): Promise<RepairReport> {
  const path = join(dataDir, 'squash.db');
  const keptAside = isSound(path) ? undefined : putAside(path, nowMs);
  const problems: string[] = [];
  const found = await findSandboxes(join(dataDir, 'sandboxes'), problems);
  const database = openDatabase(path);
  try {
    const table = new SandboxTable(database);
    const known = new Set<string>(table.all().map((row) => row.id));
    const missing = found.filter((file) => !known.has(file.sandbox.id));
    database.exec('BEGIN IMMEDIATE');
    for (const file of missing) {
      table.insert(file.sandbox);
      for (const snapshot of file.snapshots) table.insertSnapshot(file.sandbox.id, snapshot);
      table.raiseInstance(file.sandbox.instance + instanceMargin);
    }
    const salvage: Salvage =
      keptAside === undefined
        ? { execs: 0, problem: undefined }
        : salvageExecs(keptAside, database, new Set(missing.map((file) => file.sandbox.id)));
    database.exec('COMMIT');
    if (salvage.problem !== undefined)
      problems.push(`the command log could be read only in part: ${salvage.problem}`);
    return { keptAside, sandboxes: missing.map((file) => file.sandbox.id), execs: salvage.execs, problems };
  } finally {
    closeQuietly(database);
  }
}

function isSound(path: string): boolean {
  if (!existsSync(path)) return true;
  try {
    const database = openDatabase(path);
    try {
      new SandboxTable(database).all();
      return true;
    } finally {
      closeQuietly(database);
    }
  } catch (error) {
    // Only what is broken is put aside; a full disk or a second daemon is for the operator.
    if (error instanceof AppError && error.code !== 'database_corrupt') throw error;
    return false;
  }
}

function putAside(path: string, nowMs: number): string {
  const stamp = new Date(nowMs).toISOString().replaceAll(/[-:]/g, '').slice(0, 15);
  let aside = `${path}.broken-${stamp}`;
  for (let copy = 2; existsSync(aside); copy += 1) aside = `${path}.broken-${stamp}-${copy}`;
  // The journal first: a database that is found without it is at worst older, a journal without it is useless.
  for (const suffix of ['-wal', '-shm', '']) {
    if (existsSync(`${path}${suffix}`)) renameSync(`${path}${suffix}`, `${aside}${suffix}`);
  }
  return aside;
}

async function findSandboxes(directory: string, problems: string[]): Promise<readonly SandboxFile[]> {
  const found: SandboxFile[] = [];
  for (const name of existsSync(directory) ? readdirSync(directory).sort() : []) {
    const id = sandboxIdSchema.safeParse(name);
    const file = await readSandboxFile(join(directory, name, '.meta', 'sandbox.json'));
    if (!id.success || file === undefined || file.sandbox.id !== id.data) {
      problems.push(`sandboxes/${name} holds no sandbox.json that can be understood: left as it is`);
      continue;
    }
    found.push(reconciled(join(directory, name), file, problems));
  }
  return found;
}

/** The file's rows, corrected by what is really there. */
function reconciled(directory: string, file: SandboxFile, problems: string[]): SandboxFile {
  const { sandbox } = file;
  const snapshots = [...file.snapshots, ...unlisted(directory, file)].flatMap((snapshot): SnapshotRow[] => {
    try {
      const { size } = statSync(join(directory, 'snapshots', `${snapshot.label}.squashfs`));
      return [{ ...snapshot, size }];
    } catch (error) {
      problems.push(
        `snapshot "${snapshot.label}" of sandbox "${sandbox.id}" is missing: ${errorText(error)}`,
      );
      return [];
    }
  });
  const row: SandboxRow = {
    ...sandbox,
    upperGeneration: presentGeneration(directory, sandbox, problems),
    phase: 'ready',
    failure: null,
    pending: null,
    nextSeq: sandbox.nextSeq + shadowExecsMax,
  };
  return { version: 1, sandbox: row, snapshots };
}

/** Snapshot files that the shadow does not list: taken a moment before the end. */
function unlisted(directory: string, file: SandboxFile): readonly SnapshotRow[] {
  const listed = new Set<string>(file.snapshots.map((snapshot) => snapshot.label));
  const folder = join(directory, 'snapshots');
  return (existsSync(folder) ? readdirSync(folder) : []).flatMap((name) => {
    const label = snapshotLabelSchema.safeParse(name.replace(/\.squashfs$/, ''));
    if (!name.endsWith('.squashfs') || !label.success || listed.has(label.data)) return [];
    const { mtimeMs } = statSync(join(folder, name));
    const { activeSnapshot: base, layers } = file.sandbox;
    return [{ label: label.data, createdMs: Math.round(mtimeMs), size: 0, digest: null, base, layers }];
  });
}

function presentGeneration(directory: string, sandbox: SandboxRow, problems: string[]): number {
  const folder = join(directory, 'uppers');
  const generations = (existsSync(folder) ? readdirSync(folder) : [])
    .map((name) => Number(/^(\d+)(?:\.img)?$/.exec(name)?.[1] ?? 0))
    .filter((generation) => generation > 0);
  if (generations.length === 0 || generations.includes(sandbox.upperGeneration))
    return sandbox.upperGeneration;
  const newest = Math.max(...generations);
  problems.push(
    `sandbox "${sandbox.id}": upper ${sandbox.upperGeneration} is missing, ${newest} is taken instead`,
  );
  return newest;
}

function closeQuietly(database: DatabaseSync): void {
  if (database.isTransaction) database.exec('ROLLBACK');
  database.close();
}
