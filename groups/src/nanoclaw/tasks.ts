/** Tasks of the original and schedules of a channel, each told in the other's words. Local times are of the zone in `TZ`. */
import { type Fields, textOf } from './channel-client.ts';

export interface Timing {
  /** `cron`, `interval` or `once`. */
  readonly type: string;
  readonly value: string | undefined;
}

export const timeZone = process.env['TZ'] || 'UTC';

/** Fields of a schedule; a text says why it can't be one. */
export function timingOf({ type, value }: Timing): Fields | string {
  if (value === undefined) return 'schedule_value is missing';
  switch (type) {
    case 'cron':
      return { cron: value.trim().replaceAll(/\s+/g, ' '), time_zone: timeZone };
    case 'interval': {
      const ms = Number(value);
      return ms > 0 ? { every_s: Math.max(1, Math.round(ms / 1_000)) } : `"${value}" is no interval`;
    }
    case 'once': {
      const at = new Date(value);
      return Number.isNaN(at.getTime()) ? `"${value}" is no time` : { at: at.toISOString() };
    }
    default:
      return `schedule_type "${type}" is none of cron, interval, once`;
  }
}

export function timedBy({ cron, every_s: everyS, at }: Fields): Timing {
  if (typeof everyS === 'number') return { type: 'interval', value: `${everyS * 1_000}` };
  const once = textOf(at);
  return once === undefined ? { type: 'cron', value: textOf(cron) } : { type: 'once', value: local(once) };
}

/** As in `current_tasks.json`. */
export function taskOf(schedule: Fields): Fields {
  const { name, group, text, state, next_at: next } = schedule;
  const { type, value } = timedBy(schedule);
  return {
    id: name,
    groupFolder: group,
    prompt: text,
    schedule_type: type,
    schedule_value: value,
    status: state === 'done' ? 'completed' : state,
    next_run: next ?? null,
  };
}

function local(time: string): string {
  const at = new Date(time);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
