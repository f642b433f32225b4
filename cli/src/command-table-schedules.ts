/** The rows of `command-table.ts` that concern schedules of groups. */
import type { CommandSpec, PositionalSpec } from './command.ts';

const chat: PositionalSpec = { name: 'chat', kind: 'chat' };
const schedule: PositionalSpec = { name: 'schedule', kind: 'schedule' };

export const scheduleCommands: readonly CommandSpec[] = [
  {
    name: 'schedule create',
    group: 'group',
    summary: 'make a schedule: a prompt that comes to a chat at its times',
    positionals: [chat, { name: 'name', kind: 'text' }, { name: 'text', kind: 'text' }],
    flags: [
      {
        name: 'cron',
        value: 'FIELDS',
        summary: 'minute, hour, day of the month, month, weekday, as one word',
      },
      { name: 'zone', value: 'ZONE', summary: 'time zone of --cron, such as Europe/Berlin (default UTC)' },
      { name: 'every', value: 'SECONDS', summary: 'at an interval, from now on' },
      { name: 'at', value: 'TIME', summary: 'once, such as 2030-01-31T12:00:00Z' },
      { name: 'isolated', summary: 'its run has the prompt alone, not what waits in the chat' },
      { name: 'skip-missed', summary: 'what passes while there is no daemon does not run later' },
    ],
    notes:
      "squash schedule create family-chat news 'what is new?' --cron '0 7 * * mon-fri' --zone Europe/Berlin",
    load: () => import('./commands/schedule-create.ts'),
  },
  {
    name: 'schedule ls',
    group: 'group',
    summary: 'list schedules and when they come next',
    positionals: [],
    flags: [
      { name: 'chat', value: 'CHAT', kind: 'chat', summary: 'only of this one' },
      { name: 'group', value: 'GROUP', kind: 'group', summary: "only of this one's chats" },
    ],
    load: () => import('./commands/schedule-ls.ts'),
  },
  {
    name: 'schedule pause',
    group: 'group',
    summary: 'let a schedule rest',
    positionals: [chat, schedule],
    flags: [],
    load: () => import('./commands/schedule-pause.ts'),
  },
  {
    name: 'schedule resume',
    group: 'group',
    summary: 'let a schedule go on with the next time that comes',
    positionals: [chat, schedule],
    flags: [],
    load: () => import('./commands/schedule-resume.ts'),
  },
  {
    name: 'schedule rm',
    group: 'group',
    summary: 'remove a schedule with its history',
    positionals: [chat, schedule],
    flags: [],
    load: () => import('./commands/schedule-rm.ts'),
  },
  {
    name: 'schedule runs',
    group: 'group',
    summary: "list what became of a schedule's times, newest first",
    positionals: [chat, schedule],
    flags: [{ name: 'limit', value: 'N', summary: 'at most so many (default 100)' }],
    load: () => import('./commands/schedule-runs.ts'),
  },
];
