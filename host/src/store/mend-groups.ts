/**
 * Groups in a repair: saved out of a broken database row by row, and put right where a row can't be understood or has lost what it is of.
 * One such row would stand in the way of all groups.
 *
 * What a newcomer would get wrong: a group's folder is the volume that bears its number. A number that is given out twice would give a new
 * group the folder of an old one, so numbers go on behind all that may have been used.
 */
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { actionRequestSchema } from '@squash/contract/actions';
import { chatCreateSchema, groupCreateSchema } from '@squash/contract/groups';
import { scheduleCreateSchema } from '@squash/contract/schedules';
import { tierBodySchema } from '@squash/contract/tiers';
import { errorText } from '@squash/base/bug';
import type { z } from 'zod';

/** Each behind those that it refers to. */
const tables = [
  'group_tiers',
  'groups',
  'chats',
  'group_runs',
  'chat_messages',
  'chat_out',
  'group_actions',
  'schedules',
  'schedule_lines',
] as const;
const bodies: readonly (readonly [table: string, column: string, schema: z.ZodType])[] = [
  ['group_tiers', 'body', tierBodySchema],
  ['groups', 'body', groupCreateSchema],
  ['chats', 'body', chatCreateSchema],
  ['group_actions', 'request', actionRequestSchema],
  ['schedules', 'body', scheduleCreateSchema],
];
/** Rows that the broken database may have had after the last that can be read. */
const numberMargin = 1_000;
const lost = 'the database was repaired while it ran, so it can not be told how it ended';
const sqliteConstraint = 19;

type Row = Record<string, SQLOutputValue>;

/** Copies what can be read. Call inside a transaction on `fresh`. @returns what could not be, and why */
export function salvageGroups(brokenPath: string, fresh: DatabaseSync): readonly string[] {
  let broken: DatabaseSync | undefined;
  try {
    broken = new DatabaseSync(brokenPath, { readOnly: true });
    const from = broken;
    const problems = tables.flatMap((table) => copied({ broken: from, fresh }, table));
    // Whether its command was started, and what it did, stood in rows that may be lost: it is not run twice.
    fresh
      .prepare(
        `UPDATE group_runs SET state = 'failed', reason = ?, finished_ms = coalesce(started_ms, created_ms)
          WHERE state = 'running' AND begun = 1`,
      )
      .run(lost);
    return problems;
  } catch (error) {
    if (isOf(fresh, error)) throw error;
    return [`groups could be read only in part: ${errorText(error)}`];
  } finally {
    broken?.close();
  }
}

/** Call inside a transaction, when volumes are there. @returns what was changed, and why */
export function mendGroups(database: DatabaseSync): readonly string[] {
  const problems = [
    ...bodies.flatMap(([table, column, schema]) => unreadable(database, { table, column, schema })),
    ...tables.flatMap((table) => orphans(database, table)),
    ...named(
      database,
      `UPDATE groups SET body = json_set(body, '$.tier', 'untrusted')
        WHERE json_extract(body, '$.tier') NOT IN ('main', 'trusted', 'untrusted')
        AND json_extract(body, '$.tier') NOT IN (SELECT name FROM group_tiers) RETURNING name`,
      'its tier is missing, it is of tier "untrusted" now',
    ),
    ...named(
      database,
      'UPDATE groups SET volume = NULL WHERE volume IS NOT NULL AND volume NOT IN (SELECT id FROM volumes) RETURNING name',
      'its folder is missing, its next run begins with an empty one',
    ),
  ];
  const folders = database
    .prepare(
      `SELECT max(CAST(substr(name, 7) AS INTEGER)) AS most FROM volumes WHERE name GLOB 'group-[0-9]*'`,
    )
    .get();
  raise(database, 'groups', Number(folders?.['most'] ?? 0));
  return problems;
}

function copied(
  { broken, fresh }: { readonly broken: DatabaseSync; readonly fresh: DatabaseSync },
  table: string,
): readonly string[] {
  // A release that had no such table has no rows of it.
  if (broken.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) === undefined) return [];
  let left = 0;
  let insertFailed = false;
  try {
    for (const row of broken.prepare(`SELECT * FROM ${table}`).iterate()) {
      insertFailed = true;
      if (!inserted(fresh, table, row)) left += 1;
      insertFailed = false;
    }
  } catch (error) {
    if (insertFailed) throw error;
    return [`${table}: could be read only in part: ${errorText(error)}`];
  } finally {
    raise(fresh, table, usedOf(broken, table) + numberMargin);
  }
  return left === 0 ? [] : [`${table}: ${left} rows were left out: what they are of is missing`];
}

/** False: the row it refers to could not be read. */
function inserted(fresh: DatabaseSync, table: string, row: Row): boolean {
  const names = Object.keys(row);
  try {
    fresh
      .prepare(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`)
      .run(...Object.values(row));
    return true;
  } catch (error) {
    if (error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === sqliteConstraint)
      return false;
    throw error;
  }
}

function usedOf(broken: DatabaseSync, table: string): number {
  try {
    return Number(broken.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').get(table)?.['seq'] ?? 0);
  } catch {
    // That page is broken, too: what was copied has raised it, and the margin is behind that.
    return 0;
  }
}

/** Numbers up to here are given out no more. Tables that give out none have no such row, and no use for one. */
function raise(database: DatabaseSync, table: string, used: number): void {
  const sql = String(
    database.prepare('SELECT sql FROM sqlite_schema WHERE name = ?').get(table)?.['sql'] ?? '',
  );
  if (!sql.includes('AUTOINCREMENT')) return;
  const known = Number(
    database.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').get(table)?.['seq'] ?? 0,
  );
  if (known >= used) return;
  database.prepare('DELETE FROM sqlite_sequence WHERE name = ?').run(table);
  database.prepare('INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)').run(table, used);
}

function unreadable(
  database: DatabaseSync,
  { table, column, schema }: { readonly table: string; readonly column: string; readonly schema: z.ZodType },
): readonly string[] {
  const rows = database.prepare(`SELECT rowid AS row, ${column} AS body FROM ${table}`).all();
  const bad = rows.filter(({ body }) => !isUnderstood(schema, String(body)));
  for (const { row } of bad) database.prepare(`DELETE FROM ${table} WHERE rowid = ?`).run(row ?? null);
  return bad.length === 0 ? [] : [`${table}: ${bad.length} rows could not be understood and were removed`];
}

function isUnderstood(schema: z.ZodType, text: string): boolean {
  try {
    return schema.safeParse(JSON.parse(text)).success;
  } catch {
    return false;
  }
}

function orphans(database: DatabaseSync, table: string): readonly string[] {
  const rows = database.prepare(`PRAGMA foreign_key_check(${table})`).all();
  for (const { rowid } of rows) database.prepare(`DELETE FROM ${table} WHERE rowid = ?`).run(rowid ?? null);
  return rows.length === 0 ? [] : [`${table}: ${rows.length} rows were removed: what they are of is missing`];
}

function named(database: DatabaseSync, sql: string, what: string): readonly string[] {
  return database
    .prepare(sql)
    .all()
    .map(({ name }) => `group "${String(name)}": ${what}`);
}

function isOf(database: DatabaseSync, error: unknown): boolean {
  // A write that failed has ended the transaction, or is for the caller to judge: reads of the other file are neither.
  return (
    !database.isTransaction || (error instanceof Error && 'errcode' in error && Number(error.errcode) === 13)
  );
}
