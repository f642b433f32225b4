/** What of schedules is stored, and what the store has to do. Whoever writes several rows holds one transaction of `GroupRows`. */
import type { Run } from '@squash/contract/groups';
import type { Schedule, ScheduleCreate, ScheduleRun } from '@squash/contract/schedules';

export interface ScheduleRow {
  readonly key: number;
  readonly body: ScheduleCreate;
  /** Of its chat. */
  readonly group: string;
  /** Null: a client of the API. With the group its schedules go, wherever they are. */
  readonly madeBy: string | null;
  /** A person let the agent make it. */
  readonly isAllowed: boolean;
  readonly state: Schedule['state'];
  readonly pausedBy: string | null;
  /** Wall clock, when the next time was told. */
  readonly toldMs: number;
  /** Null: it is paused, or over. */
  readonly nextMs: number | null;
  readonly lastRun: number | null;
  readonly createdMs: number;
}

/** What became of one time. */
export interface ScheduleLine {
  readonly dueMs: number;
  readonly atMs: number;
  readonly verdict: ScheduleRun['verdict'];
  readonly reason: string | null;
  readonly run: number | null;
}

export interface ScheduleFilter {
  readonly chat?: string | undefined;
  readonly group?: string | undefined;
}

export interface ScheduleRows {
  /** By chat and name. */
  schedules(filter: ScheduleFilter): readonly ScheduleRow[];
  /** Oldest first. */
  schedulesOf(madeBy: string | null): readonly ScheduleRow[];
  schedule(chat: string, name: string): ScheduleRow | undefined;
  scheduleOf(key: number): ScheduleRow | undefined;
  insertSchedule(row: Omit<ScheduleRow, 'key' | 'group'>): void;
  putSchedule(row: ScheduleRow): void;
  deleteSchedule(key: number): void;

  /** Keys of active ones whose time has come, or whose next time was told by a clock that is ahead; the most overdue first. */
  dueSchedules(nowMs: number): readonly number[];
  /** Of all active ones; null: there are none. */
  nextDueMs(): number | null;

  insertLine(key: number, line: ScheduleLine): void;
  /** Newest first. */
  lines(key: number, limit: number): readonly (ScheduleLine & { readonly state: Run['state'] | null })[];
}
