/** Schedules: made, looked at, paused, removed. Callers hold the transaction. */
import { rfc3339 } from '@squash/base/clock';
import { AppError } from '@squash/contract/errors';
import { groupLimits } from '@squash/contract/group-limits';
import type { Schedule, ScheduleCreate, ScheduleRun } from '@squash/contract/schedules';
import { firstTime, type Timing } from './next-time.ts';
import { full, type Making, type Registry } from './registry.ts';
import type { ScheduleFilter, ScheduleRow, ScheduleRows } from './schedule-rows.ts';

export class Schedules {
  readonly #rows: ScheduleRows;
  readonly #registry: Registry;

  constructor(rows: ScheduleRows, registry: Registry) {
    this.#rows = rows;
    this.#registry = registry;
  }

  list(filter: ScheduleFilter): readonly Schedule[] {
    return this.#rows.schedules(filter).map(scheduleOf);
  }

  get(chat: string, name: string): Schedule {
    return scheduleOf(this.#row(chat, name));
  }

  isMadeBy(group: string, { chat, name }: { readonly chat: string; readonly name: string }): boolean {
    return this.#rows.schedule(chat, name)?.madeBy === group;
  }

  create(body: ScheduleCreate, { nowMs, by, isAllowed }: Making & { readonly isAllowed: boolean }): Schedule {
    const { chat, name } = body;
    this.#registry.chat(chat);
    if (this.#rows.schedule(chat, name) !== undefined)
      throw new AppError('schedule_exists', `Cannot make schedule "${name}" of chat "${chat}": there is one`);
    const nextMs = firstTime({ ...body, fromMs: nowMs }, this.#notBefore(body, { nowMs, by }));
    this.#makeRoom(by);
    this.#rows.insertSchedule({
      body,
      madeBy: by,
      isAllowed,
      state: 'active',
      pausedBy: null,
      toldMs: nowMs,
      nextMs,
      lastRun: null,
      createdMs: nowMs,
    });
    return this.get(chat, name);
  }

  /** @throws schedule_not_found, schedule_never, forbidden */
  pause(chat: string, name: string, { by }: Pick<Making, 'by'>): void {
    const row = this.#row(chat, name);
    checkGoesOn(row);
    // An agent that pauses it again may not resume it for that.
    if (row.state === 'paused' && by !== null) return;
    this.#rows.putSchedule({ ...row, state: 'paused', pausedBy: by, nextMs: null });
  }

  resume(chat: string, name: string, { nowMs, by }: Making): void {
    const row = this.#row(chat, name);
    checkGoesOn(row);
    if (row.state === 'active') return;
    if (by !== null && row.pausedBy !== by)
      throw new AppError('forbidden', `Cannot resume schedule "${name}": others have paused it`);
    const nextMs = firstTime(timingOf(row), nowMs);
    this.#rows.putSchedule({ ...row, state: 'active', pausedBy: null, toldMs: nowMs, nextMs });
  }

  remove(chat: string, name: string): void {
    this.#rows.deleteSchedule(this.#row(chat, name).key);
  }

  runs(chat: string, name: string, limit: number): readonly ScheduleRun[] {
    const { key } = this.#row(chat, name);
    return this.#rows.lines(key, limit).map(({ dueMs, atMs, verdict, reason, run, state }) => ({
      due_at: rfc3339(dueMs),
      at: rfc3339(atMs),
      verdict,
      reason,
      run,
      state,
    }));
  }

  /** An agent that makes one for the next minute, and again when that has passed, would have one each minute. */
  #notBefore({ cron }: ScheduleCreate, { nowMs, by }: Making): number {
    if (cron === undefined || by === null) return nowMs;
    return nowMs + this.#registry.tierOf(by).schedule_every_s_min * 1_000 - 1;
  }

  /** Those that are over go for it, the oldest first. */
  #makeRoom(by: string | null): void {
    const all = this.#rows.schedulesOf(by);
    const most = by === null ? groupLimits.schedulesMax : groupLimits.schedulesOfGroupMax;
    if (all.length < most) return;
    const over = all.find(({ state }) => state === 'done');
    if (over === undefined)
      throw full(by === null ? 'schedules' : `schedules of agents of group "${by}"`, all.length);
    this.#rows.deleteSchedule(over.key);
  }

  #row(chat: string, name: string): ScheduleRow {
    const row = this.#rows.schedule(chat, name);
    if (row === undefined)
      throw new AppError('schedule_not_found', `Cannot find schedule "${name}" of chat "${chat}"`);
    return row;
  }
}

export function timingOf({ body, createdMs }: ScheduleRow): Timing {
  return { ...body, fromMs: createdMs };
}

function checkGoesOn({ body: { name }, state }: ScheduleRow): void {
  if (state === 'done') throw new AppError('schedule_never', `Schedule "${name}" is over`);
}

function scheduleOf({
  body,
  group,
  state,
  madeBy,
  pausedBy,
  nextMs,
  lastRun,
  createdMs,
}: ScheduleRow): Schedule {
  const { chat, name, text, cron, time_zone, every_s, at, context, missed } = body;
  return {
    name,
    chat,
    group,
    text,
    cron: cron ?? null,
    time_zone: cron === undefined ? null : (time_zone ?? 'UTC'),
    every_s: every_s ?? null,
    at: at === undefined ? null : rfc3339(Date.parse(at)),
    context,
    missed,
    state,
    next_at: nextMs === null ? null : rfc3339(nextMs),
    last_run: lastRun,
    made_by: madeBy,
    paused_by: pausedBy,
    created_at: rfc3339(createdMs),
  };
}
