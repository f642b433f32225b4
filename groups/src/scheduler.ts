/**
 * Has schedules' times come: a timer, and one transaction for each time, in which its run is made, its line of the history written
 * and the next time told. So a daemon that dies anywhere has done all of it or nothing, and the next one sees which.
 *
 * The timer is only a reason to look: what is due the rows and the wall clock say, whichever way that was set.
 */
import type { Log } from '@squash/base/log';
import { AppError } from '@squash/contract/errors';
import { groupLimits } from '@squash/contract/group-limits';
import type { Schedule, ScheduleCreate, ScheduleRun } from '@squash/contract/schedules';
import type { Intake } from './intake.ts';
import { judge } from './judge.ts';
import { leastGapS, turnOf } from './next-time.ts';
import type { Registry } from './registry.ts';
import type { GroupRows } from './rows.ts';
import type { ScheduleFilter, ScheduleLine, ScheduleRow, ScheduleRows } from './schedule-rows.ts';
import { type Schedules, timingOf } from './schedules.ts';

export interface SchedulerOptions {
  readonly rows: Pick<GroupRows, 'transaction' | 'run'>;
  readonly scheduleRows: ScheduleRows;
  readonly schedules: Schedules;
  readonly registry: Registry;
  readonly intake: Intake;
  readonly nowMs: () => number;
  readonly log: Log;
  /** A run was made. */
  readonly changed: () => void;
}

/** The operations, a method each. What is stored throws `disk_full`. */
export interface ScheduleOperations {
  list(filter: ScheduleFilter): readonly Schedule[];
  get(chat: string, name: string): Schedule;
  create(body: ScheduleCreate): Schedule;
  update(chat: string, name: string, change: { readonly paused: boolean }): Schedule;
  remove(chat: string, name: string): void;
  runs(chat: string, name: string, limit: number): readonly ScheduleRun[];
}

type Outcome = Pick<ScheduleLine, 'verdict' | 'reason' | 'run'>;

/** What could not be stored is tried again so late. */
const againMs = 5_000;
const missed = 'it was missed: nobody looked when its time came';

export class Scheduler implements ScheduleOperations, Disposable {
  readonly #options: SchedulerOptions;
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  #isOver = false;

  constructor(options: SchedulerOptions) {
    this.#options = options;
  }

  list(filter: ScheduleFilter): readonly Schedule[] {
    return this.#options.schedules.list(filter);
  }

  get(chat: string, name: string): Schedule {
    return this.#options.schedules.get(chat, name);
  }

  create(body: ScheduleCreate): Schedule {
    return this.#changing((nowMs) =>
      this.#options.schedules.create(body, { nowMs, by: null, isAllowed: false }),
    );
  }

  update(chat: string, name: string, { paused }: { readonly paused: boolean }): Schedule {
    const { schedules } = this.#options;
    return this.#changing((nowMs) => {
      if (paused) schedules.pause(chat, name, { by: null });
      else schedules.resume(chat, name, { nowMs, by: null });
      return schedules.get(chat, name);
    });
  }

  remove(chat: string, name: string): void {
    this.#changing(() => this.#options.schedules.remove(chat, name));
  }

  runs(chat: string, name: string, limit: number): readonly ScheduleRun[] {
    return this.#options.schedules.runs(chat, name, limit);
  }

  /** Something was stored: once for all that happens in one turn of the event loop. */
  wake(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
      if (!this.#isOver) this.#look();
    });
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #changing<T>(body: (nowMs: number) => T): T {
    const { rows, nowMs } = this.#options;
    const result = rows.transaction(() => body(nowMs()));
    this.wake();
    return result;
  }

  #look(): void {
    clearTimeout(this.#timer);
    const waitMs = this.#comeAll();
    if (waitMs !== null) this.#timer = setTimeout(() => this.#look(), Math.max(0, waitMs)).unref();
  }

  /** How long nothing comes; null: nothing ever does. */
  #comeAll(): number | null {
    const { scheduleRows, nowMs, log } = this.#options;
    try {
      const now = nowMs();
      const failed = scheduleRows.dueSchedules(now).filter((key) => !this.#come(key, now));
      if (failed.length > 0) return againMs;
      const next = scheduleRows.nextDueMs();
      return next === null ? null : Math.min(next - nowMs(), groupLimits.scheduleLookMs);
    } catch (error) {
      log.error('group.schedule', { error });
      return againMs;
    }
  }

  /** Whether it could be stored: one that can't holds up no other. */
  #come(key: number, nowMs: number): boolean {
    const { rows, log, changed } = this.#options;
    try {
      const run = rows.transaction(() => this.#turn(key, nowMs));
      if (run !== null) changed();
      return true;
    } catch (error) {
      log.error('group.schedule', { schedule: key, error });
      return false;
    }
  }

  /** The run that it has made. */
  #turn(key: number, nowMs: number): number | null {
    const { scheduleRows, log } = this.#options;
    const row = scheduleRows.scheduleOf(key);
    if (row === undefined || row.nextMs === null) return null;
    const { toldMs, nextMs: dueMs } = row;
    const standing = { timing: timingOf(row), missed: row.body.missed, toldMs, nextMs: dueMs };
    const turn = turnOf(standing, nowMs);
    if (turn.kind === 'waits') return null;
    const { nextMs } = turn;
    const next = { ...row, toldMs: nowMs, nextMs, state: nextMs === null ? 'done' : row.state } as const;
    if (turn.kind === 'toldAnew') {
      scheduleRows.putSchedule(next);
      return null;
    }
    const outcome: Outcome =
      turn.kind === 'missed'
        ? { verdict: 'skipped', reason: missed, run: null }
        : this.#begin(row, turn.isLate ? missed : null);
    const { run } = outcome;
    scheduleRows.putSchedule({ ...next, lastRun: run ?? row.lastRun });
    scheduleRows.insertLine(key, { ...outcome, dueMs, atMs: nowMs });
    log.info('group.schedule', { schedule: key, group: row.group, verdict: outcome.verdict, run });
    return run;
  }

  #begin(row: ScheduleRow, late: string | null): Outcome {
    const { rows, intake, nowMs } = this.#options;
    const rule = this.#forbidden(row);
    if (rule !== undefined) return { verdict: 'refused', reason: rule, run: null };
    const last = row.lastRun === null ? undefined : rows.run(row.lastRun);
    if (last?.finishedMs === null)
      return { verdict: 'skipped', reason: `run ${last.run} has not ended`, run: null };
    const { chat, name, text, context } = row.body;
    const sender = row.madeBy === null ? `schedule:${name}` : `group:${row.madeBy}`;
    const message = { chat, text, sender, depth: 0 };
    try {
      const run = intake[context === 'isolated' ? 'putAlone' : 'putStarting'](message, nowMs());
      return { verdict: 'started', reason: late, run };
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'group_limit') throw error;
      return { verdict: 'refused', reason: error.message, run: null };
    }
  }

  /** The rule of the tier by which its maker may not have it any more. What a person has allowed need not be allowed again. */
  #forbidden(row: ScheduleRow): string | undefined {
    const { group, madeBy, isAllowed, body } = row;
    if (madeBy === null) return undefined;
    const everyS = body.at === undefined ? leastGapS(timingOf(row), row.createdMs) : null;
    const tier = this.#options.registry.tierOf(madeBy);
    const { effect, rule } = judge(tier, { right: 'schedule', isOwn: group === madeBy, everyS });
    return effect === 'allow' || (effect === 'hold' && isAllowed) ? undefined : rule;
  }
}
