/**
 * When a schedule's times are, and what becomes of the one that is next. Pure: the schedule and the clock.
 *
 * croner finds the times of cron, as Vixie cron has them. Two things it is not asked for: whether a time ever comes, for which it
 * looks through eight thousand years, and how close two times are.
 */
import { Cron } from 'croner';
import { AppError } from '@squash/contract/errors';
import { groupLimits } from '@squash/contract/group-limits';
import type { ScheduleCreate } from '@squash/contract/schedules';

export type Timing = Pick<ScheduleCreate, 'cron' | 'time_zone' | 'every_s' | 'at'> & {
  /** When it was made: intervals are counted from here. */
  readonly fromMs: number;
};

/** The first time after this one; null: none. */
export function timeAfter({ cron, time_zone, every_s, at, fromMs }: Timing, afterMs: number): number | null {
  if (cron !== undefined) return cronOf(cron, time_zone).nextRun(new Date(afterMs))?.getTime() ?? null;
  if (every_s !== undefined) {
    const everyMs = every_s * 1_000;
    return fromMs + (Math.floor((afterMs - fromMs) / everyMs) + 1) * everyMs;
  }
  const onceMs = Date.parse(at ?? '');
  return onceMs > afterMs ? onceMs : null;
}

/** @throws invalid_request, schedule_never */
export function firstTime(timing: Timing, nowMs: number): number {
  const { cron } = timing;
  if (cron !== undefined) {
    try {
      cronOf(cron, timing.time_zone);
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
      throw new AppError('invalid_request', `cron: ${error.message.replace('CronPattern: ', '')}`);
    }
    if (!hasDay(cron)) throw new AppError('schedule_never', `No month of "${cron}" has such a day`);
  }
  const first = timeAfter(timing, nowMs);
  if (first === null) throw new AppError('schedule_never', `The time "${timing.at ?? cron}" is over`);
  return first;
}

/** The least time between two of its times, as on a day of 24 hours; of one that comes once until it comes. */
export function leastGapS({ cron, every_s, at }: Timing, nowMs: number): number {
  if (every_s !== undefined) return every_s;
  if (cron === undefined) return (Date.parse(at ?? '') - nowMs) / 1_000;
  const [minutes = '', hours = ''] = cron.split(' ');
  const times = numbers(hours, 0, 23).flatMap((hour) =>
    numbers(minutes, 0, 59).map((each) => hour * 60 + each),
  );
  const gaps = times.map((time, index) => (times[index + 1] ?? (times[0] ?? 0) + 1_440) - time);
  return Math.min(...gaps) * 60;
}

export interface Standing {
  readonly timing: Timing;
  readonly missed: ScheduleCreate['missed'];
  /** When its next time was told. */
  readonly toldMs: number;
  readonly nextMs: number;
}

export type Turn =
  | { readonly kind: 'waits'; readonly nextMs: number }
  /** The clock was wrong when the next time was told. */
  | { readonly kind: 'toldAnew'; readonly nextMs: number | null }
  | {
      readonly kind: 'runs' | 'missed';
      readonly isLate: boolean;
      /** Null: that was the last. */
      readonly nextMs: number | null;
    };

/** However many times have passed, they are one turn. */
export function turnOf({ timing, missed, toldMs, nextMs }: Standing, nowMs: number): Turn {
  const backMs = Math.min(groupLimits.putBackMs, (timing.every_s ?? Infinity) * 1_000);
  if (toldMs - nowMs > backMs) return { kind: 'toldAnew', nextMs: timeAfter(timing, nowMs) };
  if (nextMs > nowMs) return { kind: 'waits', nextMs };
  const following = timeAfter(timing, nextMs);
  const isNextOver = following !== null && following <= nowMs;
  const isLate = isNextOver || nowMs - nextMs >= groupLimits.missedAfterMs;
  return {
    kind: isLate && missed === 'skip' ? 'missed' : 'runs',
    isLate,
    nextMs: isNextOver ? timeAfter(timing, nowMs) : following,
  };
}

/** @throws TypeError, RangeError for what is no cron */
function cronOf(cron: string, zone = 'UTC'): Cron {
  // Lists count as fixed times, as in Vixie cron: such a time that a change of the clock leaves out comes after it.
  return new Cron(cron, { mode: '5-part', timezone: zone, paused: true, fixedTimeRule: 'no-wildcard' });
}

const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const daysOfMonth = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** A weekday always comes; a day alone may be one that none of its months has. */
function hasDay(cron: string): boolean {
  const [, , days = '', months = '', weekdays] = cron.split(' ');
  if (weekdays !== '*' || days === 'L') return true;
  const named = months.toLowerCase().replaceAll(/[a-z]{3}/g, (name) => `${monthNames.indexOf(name) + 1}`);
  const first = Math.min(...numbers(days, 1, 31));
  return numbers(named, 1, 12).some((month) => first <= (daysOfMonth[month - 1] ?? 0));
}

/** A field of cron that croner has taken, in order. */
function numbers(field: string, least: number, most: number): readonly number[] {
  const all = Array.from({ length: most - least + 1 }, (_, index) => least + index);
  const elements = field.split(',').map((element) => {
    const [range = '', step = '1'] = element.split('/');
    const [from = '', to = from] = range === '*' ? [`${least}`, `${most}`] : range.split('-');
    return { from: Number(from), to: Number(to), step: Number(step) };
  });
  return all.filter((each) =>
    elements.some(({ from, to, step }) => each >= from && each <= to && (each - from) % step === 0),
  );
}
