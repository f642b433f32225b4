/**
 * `egress.db`: which virtual address means which name, which tunnels there are, and the decisions. The only writer is this process, and the
 * database's exclusive lock is what makes it the only one: the kernel lets it go however the process dies.
 *
 * A file that can't be read is set aside and a new one begun: without it programs that remember an address are
 * refused until they ask again, which is better than a host without any network. What goes by (a full disk, no memory) is
 * no reason to lose it: then the process does not start, and the daemon tries again.
 */
import { renameSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { isDiskFull } from '@squash/base/errno';
import { Failure } from '@squash/base/failure';

const version = 1;
const schema = `
  CREATE TABLE names (
    sandbox TEXT NOT NULL,
    number INTEGER NOT NULL,
    host TEXT NOT NULL,
    is_refused INTEGER NOT NULL,
    used_ms INTEGER NOT NULL,
    PRIMARY KEY (sandbox, number)
  ) WITHOUT ROWID;
  CREATE TABLE decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time_ms INTEGER NOT NULL,
    sandbox TEXT NOT NULL,
    kind TEXT NOT NULL,
    host TEXT,
    address TEXT,
    port INTEGER,
    method TEXT,
    path TEXT,
    verdict TEXT NOT NULL,
    rule TEXT NOT NULL,
    bytes_up INTEGER,
    bytes_down INTEGER,
    duration_ms REAL,
    secrets TEXT,
    count INTEGER NOT NULL
  );
  CREATE INDEX decisions_of_sandbox ON decisions (sandbox, id);
  CREATE TABLE tunnels (
    instance INTEGER NOT NULL,
    connection INTEGER NOT NULL,
    sandbox TEXT NOT NULL,
    tunnel TEXT NOT NULL,
    PRIMARY KEY (instance, connection)
  ) WITHOUT ROWID;
  CREATE INDEX tunnels_of_sandbox ON tunnels (sandbox);
  CREATE TABLE pruned (sandbox TEXT PRIMARY KEY, before INTEGER NOT NULL) WITHOUT ROWID;
`;

/** SQLite's codes for another's lock, and for a file that is broken or was none of its own. */
const sqliteBusy = 5;
const sqliteCorrupt = 11;
const unreadableCodes: ReadonlySet<number> = new Set([sqliteCorrupt, 26]);
/** … and for what the file system says: an error of the disk, a full one, a file that can't be opened. */
const fileCodes: ReadonlySet<number> = new Set([10, 13, 14]);

/** Another egress process works on this data directory. */
export class EgressLocked extends Error {}

/** @throws EgressLocked, or SQLite's error where the file can be neither opened nor made */
export function openEgressDatabase(path: string, onReplaced: (why: string) => void): DatabaseSync {
  try {
    return open(path);
  } catch (error) {
    if (!isSqliteError(error)) throw error;
    const code = primaryCode(error);
    if (code === sqliteBusy) {
      throw new EgressLocked(`another egress process works with "${path}"`, { cause: error });
    }
    if (!unreadableCodes.has(code)) throw error;
    for (const suffix of ['', '-wal']) {
      try {
        renameSync(path + suffix, `${path}.broken${suffix}`);
      } catch {
        // There is no such file: what is left of the database is only the other one.
      }
    }
    onReplaced(error.message);
    return open(path);
  }
}

/** Is it the file system's word, which another moment may change? */
export function isFileTrouble(error: unknown): boolean {
  if (isSqliteError(error)) return fileCodes.has(primaryCode(error));
  return isDiskFull(error);
}

function isSqliteError(error: unknown): error is Error & { readonly errcode: unknown } {
  return error instanceof Error && 'errcode' in error;
}

function primaryCode(error: { readonly errcode: unknown }): number {
  return Number(error.errcode) & 0xff;
}

function open(path: string): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    // Set before the first read, the lock also keeps WAL's index out of shared memory.
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;');
    database.exec('PRAGMA cache_size = -1024; PRAGMA journal_size_limit = 4194304; BEGIN EXCLUSIVE;');
    const found = Number(database.prepare('PRAGMA user_version').get()?.['user_version']);
    if (found === 0) database.exec(`${schema} PRAGMA user_version = ${version};`);
    database.exec('COMMIT');
    if (found > version) throw unreadable(`it is of version ${found}, this Squash knows ${version}`);
    const check = database.prepare('PRAGMA quick_check(1)').get()?.['quick_check'];
    if (check !== 'ok') throw checkFailure(String(check));
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** A page that the disk did not give is told among the damages, with SQLite's code: it is none. */
function checkFailure(said: string): Error {
  const code = Number(/error code[ =]+(\d+)/.exec(said)?.[1]);
  return fileCodes.has(code & 0xff) ? sqliteFailure(code, said) : unreadable(said);
}

function unreadable(why: string): Error {
  return sqliteFailure(sqliteCorrupt, why);
}

/** As SQLite itself would throw it. */
function sqliteFailure(errcode: number, why: string): Error {
  return Object.assign(new Failure('database_damaged', why), { errcode });
}
