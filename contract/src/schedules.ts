/**
 * Schedules: prompts that come to a chat at their times and start runs there, as if somebody had written them.
 *
 * What a newcomer would get wrong: each time follows from the schedule alone, never from when the run before began or ended. So
 * nothing drifts, and a time that has had its line in the history is over.
 */
import { z } from 'zod';
import { groupLimits } from './group-limits.ts';
import { chatNameSchema, groupNameSchema, messageTextSchema, runStates } from './groups.ts';

export const scheduleNameSchema = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, {
  error: 'a schedule’s name has letters, digits, "_" and "-", a letter or digit first, 64 at most',
});

const word = '(?:\\d{1,2}|[A-Za-z]{3})';
const element = `(?:\\*|${word}(?:-${word})?)(?:/\\d{1,2})?`;
const list = `${element}(?:,${element}){0,59}`;
/** The plain language of cron; what libraries add to it differs from one to the other. */
const cronPattern = new RegExp(`^${list} ${list} (?:L|${list}) ${list} ${list}$`);
const cronSchema = z.string().max(256).regex(cronPattern, {
  error:
    'cron: five fields with a space between: minute, hour, day of the month (or L, the last), month, weekday',
});

/** Offsets are no zones: they know no summer. */
const zoneSchema = z.string().refine((text) => /^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(text) && isZone(text), {
  error: 'time_zone: no name of the IANA database, such as Europe/Berlin',
});

function isZone(timeZone: string): boolean {
  try {
    return Intl.DateTimeFormat('en', { timeZone }).resolvedOptions().timeZone !== '';
  } catch {
    // Unknown here.
    return false;
  }
}

const { everyS } = groupLimits;

/** Body of `schedule.create`, and an agent’s words. */
export const scheduleShape = {
  chat: chatNameSchema,
  name: scheduleNameSchema.describe('one in its chat'),
  text: messageTextSchema.describe('the prompt'),
  cron: cronSchema.optional().describe('`minute hour day month weekday`; one of `cron`, `every_s`, `at`'),
  time_zone: zoneSchema.optional().describe('of `cron`, as in the IANA database; default `UTC`'),
  every_s: z.int().min(everyS.least).max(everyS.most).optional().describe('from when it is made'),
  at: z.iso
    .datetime({ offset: true, error: 'at must be a time, such as 2030-01-31T12:00:00Z' })
    .optional()
    .describe('once'),
  context: z
    .enum(['group', 'isolated'])
    .default('group')
    .describe('`group`: its run has all that waits in the chat; `isolated`: the prompt alone'),
  missed: z
    .enum(['run_once', 'skip'])
    .default('run_once')
    .describe('what becomes of times that passed while there was no daemon'),
};

interface Times {
  readonly cron?: string | undefined;
  readonly time_zone?: string | undefined;
  readonly every_s?: number | undefined;
  readonly at?: string | undefined;
}

export function hasOneTiming({ cron, every_s, at }: Times): boolean {
  return [cron, every_s, at].filter((each) => each !== undefined).length === 1;
}
export const oneTiming = { error: 'one of "cron", "every_s" and "at" has to be given' };
export function hasZoneOfCron({ cron, time_zone }: Times): boolean {
  return time_zone === undefined || cron !== undefined;
}
export const zoneOfCron = { error: 'time_zone belongs to "cron"' };

export const scheduleCreateSchema = z
  .strictObject(scheduleShape)
  .refine(hasOneTiming, oneTiming)
  .refine(hasZoneOfCron, zoneOfCron);
export type ScheduleCreate = z.output<typeof scheduleCreateSchema>;

export const scheduleChangeSchema = z.strictObject({
  paused: z.boolean().describe('what passes while it is paused is not missed'),
});

export const scheduleStates = ['active', 'paused', 'done'] as const;
export const scheduleSchema = z.strictObject({
  name: scheduleNameSchema,
  chat: chatNameSchema,
  group: groupNameSchema,
  text: z.string(),
  cron: z.string().nullable(),
  time_zone: z.string().nullable(),
  every_s: z.int().nullable(),
  at: z.string().nullable(),
  context: scheduleShape.context,
  missed: scheduleShape.missed,
  state: z.enum(scheduleStates).describe('`done`: no time is to come'),
  next_at: z.string().nullable(),
  last_run: z.int().nullable(),
  made_by: z.string().nullable().describe('the group whose agent made it; null: a client of the API'),
  paused_by: z.string().nullable().describe('the group whose agent paused it; null: a client of the API'),
  created_at: z.string(),
});
export type Schedule = z.infer<typeof scheduleSchema>;

export const scheduleVerdicts = ['started', 'skipped', 'refused'] as const;
export const scheduleRunSchema = z.strictObject({
  due_at: z.string().describe('the time of the schedule'),
  at: z.string().describe('when it was decided'),
  verdict: z
    .enum(scheduleVerdicts)
    .describe('`skipped`: missed, or the run before still went on; `refused`: by tier or limit'),
  reason: z.string().nullable().describe('null: it came in time'),
  run: z.int().nullable(),
  state: z.enum(runStates).nullable().describe('of the run; null: there is none, or it is no longer kept'),
});
export type ScheduleRun = z.infer<typeof scheduleRunSchema>;
