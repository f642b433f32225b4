/**
 * Opens the state database, brings it to the present shape, and turns SQLite's failures into ours.
 *
 * WAL with `synchronous = NORMAL`: a commit is a write without a sync, which survives the death of the daemon
 * (the page cache does) but not a power cut, where the last commits may be missing while the file stays sound.
 * After a power cut every command is gone anyway, so for the exec log it is enough that the log is synced a second later
 * (`log-sync.ts`). Where a file operation relies on a commit (an upper is removed because the row says so), `durably` syncs it.
 */
import { existsSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Failure } from '@squash/base/failure';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { migrations } from './schema.ts';

const sqliteFull = 13;
/** What the file system says, which says nothing about the file's content: READONLY, IOERR, CANTOPEN. */
const sqliteFileTrouble: ReadonlySet<number> = new Set([8, 10, 14]);
const sqliteCorrupt = 11;
const sqliteNotADatabase = 26;
const sqliteBusy = 5;

/** @throws database_corrupt, database_newer, database_unavailable, disk_full, data_locked */
export function openDatabase(path: string): DatabaseSync {
  const isNew = !existsSync(path);
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path, { timeout: 5_000, enableForeignKeyConstraints: true });
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;');
    if (!isNew) checkIntegrity(database, path);
    migrate(database, path);
    return database;
  } catch (error) {
    database?.close();
    throw translate(error, path);
  }
}

function checkIntegrity(database: DatabaseSync, path: string): void {
  const first = database.prepare('PRAGMA quick_check(1)').get();
  const said = String(first?.['quick_check'] ?? 'no answer');
  if (said === 'ok') return;
  throw checkFailure(said, path);
}

/** A page that the disk did not give is told among the damages, with SQLite's code: it is none. */
export function checkFailure(said: string, path: string): unknown {
  const code = /error code[ =]+(\d+)/.exec(said)?.[1];
  if (code === undefined) return corrupt(path, said);
  const failure = translate(
    Object.assign(new Failure('database_damaged', said), { errcode: Number(code) }),
    path,
  );
  return failure instanceof AppError ? failure : corrupt(path, said);
}

function migrate(database: DatabaseSync, path: string): void {
  const version = Number(database.prepare('PRAGMA user_version').get()?.['user_version'] ?? 0);
  if (version > migrations.length) {
    throw new AppError(
      'database_newer',
      `Cannot open database "${path}": it is of version ${version}, this Squash knows ${migrations.length}: use the newer Squash that wrote it`,
    );
  }
  for (const [index, step] of migrations.entries()) {
    if (index < version) continue;
    database.exec(`BEGIN IMMEDIATE; ${step} PRAGMA user_version = ${index + 1}; COMMIT;`);
  }
}

function corrupt(path: string, detail: string): AppError {
  return new AppError(
    'database_corrupt',
    `Cannot read database "${path}": ${detail}: "squash doctor --repair" rebuilds it from the sandboxes' directories and keeps the old file`,
  );
}

/** SQLite's failures as ours; anything else as it is. */
export function translate(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || error instanceof AppError || !('errcode' in error)) return error;
  // Extended codes keep the primary code in the low byte.
  const code = Number(error.errcode) & 0xff;
  if (code === sqliteFull || (sqliteFileTrouble.has(code) && hasNoRoom(path))) {
    return new AppError(
      'disk_full',
      `Cannot write database "${path}": the disk is full: free space in the data directory`,
      {
        cause: error,
      },
    );
  }
  if (sqliteFileTrouble.has(code)) {
    return new AppError(
      'database_unavailable',
      `Cannot use database "${path}": ${error.message}: look at the disk and its file system (dmesg); the file is left as it is`,
      { cause: error },
    );
  }
  if (code === sqliteCorrupt || code === sqliteNotADatabase) return corrupt(path, error.message);
  if (code === sqliteBusy) {
    return new AppError('data_locked', `Cannot use database "${path}": another process holds it`, {
      cause: error,
    });
  }
  return error;
}

/** SQLite tells a full disk by an error of its own in some places only: not where it makes a file or its shared index. */
function hasNoRoom(path: string): boolean {
  const { bavail, bsize, files, ffree } = statfsSync(dirname(path));
  // A file system without a table of inodes says that it has none.
  return bavail * bsize < limits.databaseFreeBytesMin || (files > 0 && ffree === 0);
}
