/**
 * Saves commands out of a database that is broken somewhere: row by row, until a page can't be read.
 */
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { errorText } from '@squash/base/bug';

export interface Salvage {
  readonly execs: number;
  /** Why not everything could be read. */
  readonly problem: string | undefined;
}

type Row = Record<string, SQLOutputValue>;

/** Those that a database of an earlier release does not have are left out. */
const columnsKnown = [
  'sandbox',
  'seq',
  'exec_id',
  'kind',
  'cmd',
  'workdir',
  'timeout_ms',
  'started_ms',
  'kill_wanted',
  'finished_ms',
  'exit_code',
  'signal',
  'timed_out',
  'reason',
  'stdout_bytes',
  'stderr_bytes',
  'stored_bytes',
  'process',
  'tag',
  'stdin_ended',
];

/** Copies what can be read of these sandboxes' commands. Call inside a transaction on `fresh`. */
export function salvageExecs(brokenPath: string, fresh: DatabaseSync, ids: ReadonlySet<string>): Salvage {
  let broken: DatabaseSync | undefined;
  let execs = 0;
  try {
    broken = new DatabaseSync(brokenPath);
    const columns = columnsOf(broken);
    const insert = fresh.prepare(
      `INSERT OR IGNORE INTO execs (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
    );
    const raise = fresh.prepare('UPDATE sandboxes SET next_seq = max(next_seq, ?) WHERE id = ?');
    // By key, in the order of the pages, so that one bad page ends the reading as late as possible.
    for (const row of broken.prepare(`SELECT key, ${columns.join(', ')} FROM execs ORDER BY key`).iterate()) {
      if (!ids.has(String(row['sandbox']))) continue;
      const { lastInsertRowid, changes } = insert.run(...columns.map((column) => row[column] ?? null));
      if (changes === 0) continue;
      raise.run(Number(row['seq']) + 1, row['sandbox'] ?? null);
      copyOutput({ broken, fresh }, row, Number(lastInsertRowid));
      execs += 1;
    }
    return { execs, problem: undefined };
  } catch (error) {
    return { execs, problem: errorText(error) };
  } finally {
    broken?.close();
  }
}

/**
 * Copies keys, quotas, and what was used up of logins: without them people would be shut out, owners unbounded, and signatures good again. Call inside a transaction on `fresh`.
 * @returns why not everything could be read
 */
export function salvageAccess(brokenPath: string, fresh: DatabaseSync): string | undefined {
  let broken: DatabaseSync | undefined;
  try {
    broken = new DatabaseSync(brokenPath);
    for (const table of ['api_keys', 'ssh_keys', 'quotas', 'ssh_sessions'])
      copyTable({ broken, fresh }, table);
    return undefined;
  } catch (error) {
    return errorText(error);
  } finally {
    broken?.close();
  }
}

/** A release that had no such table has no rows of it. */
function copyTable(
  { broken, fresh }: { readonly broken: DatabaseSync; readonly fresh: DatabaseSync },
  table: string,
): void {
  if (broken.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) === undefined) return;
  for (const row of broken.prepare(`SELECT * FROM ${table}`).iterate()) {
    const names = Object.keys(row);
    fresh
      .prepare(
        `INSERT OR IGNORE INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
      )
      .run(...Object.values(row));
  }
}

function columnsOf(database: DatabaseSync): readonly string[] {
  const rows = database.prepare("SELECT name FROM pragma_table_info('execs')").all();
  const present = new Set(rows.map((row) => String(row['name'])));
  return columnsKnown.filter((column) => present.has(column));
}

function copyOutput(
  { broken, fresh }: { readonly broken: DatabaseSync; readonly fresh: DatabaseSync },
  exec: Row,
  key: number,
): void {
  const old = exec['key'] ?? null;
  const chunk = fresh.prepare('INSERT INTO output (exec, stream, data) VALUES (?, ?, ?)');
  for (const row of broken
    .prepare('SELECT stream, data FROM output WHERE exec = ? ORDER BY key')
    .iterate(old)) {
    chunk.run(key, row['stream'] ?? null, row['data'] ?? null);
  }
  const line = fresh.prepare('INSERT INTO job_lines (exec, number, stream, data) VALUES (?, ?, ?, ?)');
  for (const row of broken
    .prepare('SELECT number, stream, data FROM job_lines WHERE exec = ? ORDER BY number')
    .iterate(old)) {
    line.run(key, row['number'] ?? null, row['stream'] ?? null, row['data'] ?? null);
  }
  if (exec['process'] === undefined || exec['process'] === null) return;
  const piece = fresh.prepare(
    'INSERT INTO process_output (exec, position, stream, data) VALUES (?, ?, ?, ?)',
  );
  for (const row of broken
    .prepare('SELECT position, stream, data FROM process_output WHERE exec = ? ORDER BY position')
    .iterate(old)) {
    piece.run(key, row['position'] ?? null, row['stream'] ?? null, row['data'] ?? null);
  }
}
