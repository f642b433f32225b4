/**
 * Rebuilds the database from what lies on the disk, for `squash doctor --repair`. Hold the data lock.
 *
 * Sandboxes come from their `sandbox.json`, snapshots from there and from the files that are there; commands and groups are
 * saved from the old database as far as it can be read. The old file is kept aside, when the new one is whole: a repair
 * that ends early (a full disk, a kill) leaves what there was. No upper, layer or snapshot is touched. A sound
 * database is left in place and only takes in sandboxes that it does not know.
 */
import { existsSync, linkSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { sandboxIdSchema, snapshotLabelSchema } from '@squash/contract/ids';
import { AppError } from '@squash/contract/errors';
import { errorText } from '@squash/base/bug';
import { z } from 'zod';
import { syncDirectory } from '@squash/base/atomic-file';
import { openDatabase, translate } from './database.ts';
import { mendGroups, salvageGroups } from './mend-groups.ts';
import { databasePath, isBlank } from './open-state.ts';
import { Reserve } from './reserve.ts';
import type { SandboxRow, SnapshotRow, VolumeRow } from './rows.ts';
import { type Salvage, salvageAccess, salvageExecs } from './salvage.ts';
import { readSandboxFile, type SandboxFile } from './sandbox-file.ts';
import { SandboxTable } from './sandboxes.ts';
import { findVolumes } from './volume-file.ts';
import { VolumeTable } from './volumes.ts';

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

/** On a full disk in the room that is kept in reserve. @throws as `repairDatabase` */
export async function repairState(dataDir: string, nowMs: number): Promise<RepairReport> {
  await using reserve = new Reserve(dataDir);
  reserve.giveUpIfFull();
  try {
    return await repairDatabase(dataDir, nowMs);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'disk_full' || !reserve.giveUp()) throw error;
    return await repairDatabase(dataDir, nowMs);
  }
}

/** @throws disk_full, data_locked, database_newer, database_unavailable: then everything is as it was */
export async function repairDatabase(dataDir: string, nowMs: number): Promise<RepairReport> {
  const path = databasePath(dataDir);
  const problems: string[] = [];
  const found = {
    sandboxes: await findSandboxes(join(dataDir, 'sandboxes'), problems),
    volumes: await findVolumes(join(dataDir, 'volumes'), problems),
  };
  if (!isBlank(path) && isSound(path)) return { keptAside: undefined, ...takeIn({ path }, found, problems) };
  const fresh = `${path}.new`;
  removeDatabase(fresh);
  try {
    const taken = takeIn({ path: fresh, broken: isBlank(path) ? undefined : path }, found, problems);
    const keptAside = isBlank(path) ? undefined : putAside(path, nowMs);
    renameSync(fresh, path);
    await syncDirectory(dataDir);
    return { keptAside, ...taken };
  } catch (error) {
    removeDatabase(fresh);
    throw translate(error, path);
  }
}

/** Opens or makes the database at `path`, in one transaction; from `broken`, where there is one, commands are saved. */
function takeIn(
  { path, broken }: { readonly path: string; readonly broken?: string | undefined },
  found: { readonly sandboxes: readonly SandboxFile[]; readonly volumes: readonly VolumeRow[] },
  problems: string[],
): Omit<RepairReport, 'keptAside'> {
  const database = openDatabase(path);
  try {
    const table = new SandboxTable(database);
    const known = new Set<string>(table.all().map((row) => row.id));
    const missing = found.sandboxes.filter((file) => !known.has(file.sandbox.id));
    database.exec('BEGIN IMMEDIATE');
    // Used from now on, also where nothing could be taken in: what still lies there then is the operator's decision.
    table.raiseInstance(1);
    for (const file of missing) {
      const { id, hostLabel } = file.sandbox;
      table.insert({ ...file.sandbox, hostLabel: table.freeHostLabel(id, hostLabel) });
      for (const snapshot of file.snapshots) table.insertSnapshot(file.sandbox.id, snapshot);
      table.raiseInstance(file.sandbox.instance + instanceMargin);
    }
    const volumes = new VolumeTable(database);
    for (const row of found.volumes) if (volumes.get(row.id) === undefined) volumes.insert(row);
    const salvage: Salvage =
      broken === undefined
        ? { execs: 0, problem: undefined }
        : salvageExecs(broken, database, new Set(missing.map((file) => file.sandbox.id)));
    const access = broken === undefined ? undefined : salvageAccess(broken, database);
    if (broken !== undefined) problems.push(...salvageGroups(broken, database));
    problems.push(...mendGroups(database));
    database.exec('COMMIT');
    if (access !== undefined) problems.push(`keys and quotas could be read only in part: ${access}`);
    if (salvage.problem !== undefined)
      problems.push(`the command log could be read only in part: ${salvage.problem}`);
    return { sandboxes: missing.map((file) => file.sandbox.id), execs: salvage.execs, problems };
  } catch (error) {
    throw translate(error, path);
  } finally {
    closeQuietly(database);
  }
}

function isSound(path: string): boolean {
  let database: DatabaseSync | undefined;
  try {
    database = openDatabase(path);
    new SandboxTable(database).all();
    new VolumeTable(database).all();
    return true;
  } catch (thrown) {
    const error = translate(thrown, path);
    // Only what is broken is put aside: a full disk, a failing one, a second daemon or a later version is none of that.
    if (!isBroken(error)) throw error;
    return false;
  } finally {
    if (database !== undefined) closeQuietly(database);
  }
}

/** Pages, tables or rows that can't be understood. */
function isBroken(error: unknown): boolean {
  if (error instanceof AppError) return error.code === 'database_corrupt';
  // SQLITE_ERROR: a table or a column that should be there is not.
  const isSchema = error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === 1;
  return isSchema || error instanceof z.ZodError || error instanceof SyntaxError;
}

function putAside(path: string, nowMs: number): string {
  const stamp = new Date(nowMs).toISOString().replaceAll(/[-:]/g, '').slice(0, 15);
  let aside = `${path}.broken-${stamp}`;
  for (let copy = 2; existsSync(aside); copy += 1) aside = `${path}.broken-${stamp}-${copy}`;
  // A second name: the first is taken over by the new file in one step. Its journal goes before that, because SQLite would
  // read it into the new one.
  linkSync(path, aside);
  for (const suffix of ['-wal', '-shm']) {
    if (existsSync(`${path}${suffix}`)) renameSync(`${path}${suffix}`, `${aside}${suffix}`);
  }
  return aside;
}

function removeDatabase(path: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
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
    return [
      {
        label: label.data,
        createdMs: Math.round(mtimeMs),
        size: 0,
        digest: null,
        base,
        layers,
        labels: {},
        memory: null,
      },
    ];
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
