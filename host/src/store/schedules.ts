/** Rows of schedules and of what became of their times. Callers hold the transaction. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { groupLimits } from '@squash/contract/group-limits';
import { runStates } from '@squash/contract/groups';
import { scheduleCreateSchema, scheduleStates, scheduleVerdicts } from '@squash/contract/schedules';
import type { ScheduleFilter, ScheduleLine, ScheduleRow, ScheduleRows } from '@squash/groups/schedule-rows';
import { z } from 'zod';

const rowSchema = z.strictObject({
  key: z.int(),
  body: z.string().transform((text) => scheduleCreateSchema.parse(JSON.parse(text))),
  group: z.string(),
  madeBy: z.string().nullable(),
  isAllowed: z.int().transform((value) => value === 1),
  state: z.enum(scheduleStates),
  pausedBy: z.string().nullable(),
  toldMs: z.int(),
  nextMs: z.int().nullable(),
  lastRun: z.int().nullable(),
  createdMs: z.int(),
});
const lineSchema = z.strictObject({
  dueMs: z.int(),
  atMs: z.int(),
  verdict: z.enum(scheduleVerdicts),
  reason: z.string().nullable(),
  run: z.int().nullable(),
  state: z.enum(runStates).nullable(),
});

const select = `SELECT schedules.key, schedules.body, chats.grp AS "group", made_by AS madeBy, allowed AS isAllowed, state,
  paused_by AS pausedBy, told_ms AS toldMs, next_ms AS nextMs, last_run AS lastRun, schedules.created_ms AS createdMs
  FROM schedules JOIN chats ON chats.name = schedules.chat`;

type Value = string | number | null;

export class ScheduleTable implements ScheduleRows {
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  schedules({ chat, group }: ScheduleFilter): readonly ScheduleRow[] {
    return this.#rows(
      'WHERE (?1 IS NULL OR chat = ?1) AND (?2 IS NULL OR chats.grp = ?2) ORDER BY chat, schedules.name',
      chat ?? null,
      group ?? null,
    );
  }

  schedulesOf(madeBy: string | null): readonly ScheduleRow[] {
    return this.#rows('WHERE made_by IS ? ORDER BY schedules.key', madeBy);
  }

  schedule(chat: string, name: string): ScheduleRow | undefined {
    return this.#rows('WHERE chat = ? AND schedules.name = ?', chat, name)[0];
  }

  scheduleOf(key: number): ScheduleRow | undefined {
    return this.#rows('WHERE schedules.key = ?', key)[0];
  }

  insertSchedule({ body, isAllowed, ...row }: Omit<ScheduleRow, 'key' | 'group'>): void {
    const { chat, name } = body;
    const values = { ...row, chat, name, body: JSON.stringify(body), isAllowed: Number(isAllowed) };
    this.#database
      .prepare(
        `INSERT INTO schedules (chat, name, body, made_by, allowed, state, paused_by, told_ms, next_ms, last_run, created_ms)
          VALUES (:chat, :name, :body, :madeBy, :isAllowed, :state, :pausedBy, :toldMs, :nextMs, :lastRun, :createdMs)`,
      )
      .run(values);
  }

  putSchedule({ key, state, pausedBy, toldMs, nextMs, lastRun }: ScheduleRow): void {
    this.#run(
      'UPDATE schedules SET state = ?, paused_by = ?, told_ms = ?, next_ms = ?, last_run = ? WHERE key = ?',
      state,
      pausedBy,
      toldMs,
      nextMs,
      lastRun,
      key,
    );
  }

  deleteSchedule(key: number): void {
    this.#run('DELETE FROM schedules WHERE key = ?', key);
  }

  dueSchedules(nowMs: number): readonly number[] {
    return this.#all(
      `SELECT key FROM schedules WHERE state = 'active' AND (next_ms <= ?1 OR told_ms > ?1) ORDER BY next_ms, key`,
      nowMs,
    ).map(({ key }) => Number(key));
  }

  nextDueMs(): number | null {
    const [row] = this.#all(`SELECT min(next_ms) AS next FROM schedules WHERE state = 'active'`);
    return z.int().nullable().parse(row?.['next']);
  }

  insertLine(key: number, { dueMs, atMs, verdict, reason, run }: ScheduleLine): void {
    this.#run(
      'INSERT INTO schedule_lines (schedule, due_ms, at_ms, verdict, reason, run) VALUES (?, ?, ?, ?, ?, ?)',
      key,
      dueMs,
      atMs,
      verdict,
      reason,
      run,
    );
    this.#run(
      `DELETE FROM schedule_lines WHERE schedule = ?1 AND key <=
        (SELECT key FROM schedule_lines WHERE schedule = ?1 ORDER BY key DESC LIMIT 1 OFFSET ?2)`,
      key,
      groupLimits.scheduleRunsKept,
    );
  }

  lines(key: number, limit: number) {
    return this.#all(
      `SELECT due_ms AS dueMs, at_ms AS atMs, verdict, schedule_lines.reason, run, group_runs.state
        FROM schedule_lines LEFT JOIN group_runs ON group_runs.key = run
        WHERE schedule = ? ORDER BY schedule_lines.key DESC LIMIT ?`,
      key,
      limit,
    ).map((row) => lineSchema.parse(row));
  }

  #rows(where: string, ...values: readonly Value[]): readonly ScheduleRow[] {
    return this.#all(`${select} ${where}`, ...values).map((row) => rowSchema.parse(row));
  }

  #all(sql: string, ...values: readonly Value[]): readonly Record<string, SQLOutputValue>[] {
    return this.#database
      .prepare(sql)
      .all(...values)
      .map((row) => ({ ...row }));
  }

  #run(sql: string, ...values: readonly Value[]): void {
    this.#database.prepare(sql).run(...values);
  }
}
