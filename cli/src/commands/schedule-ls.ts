/** `squash schedule ls`: the schedules, and when each comes next. */
import type { Schedule } from '@squash/contract/schedules';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { type All, schedulesPath } from '../group-paths.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ client, flags, json }: Call): Promise<number> {
  const query = { chat: flags.text('chat'), group: flags.text('group') };
  const list = await client.get<All<Schedule>>(schedulesPath([], query));
  if (json) printJson(list);
  else
    printTable<Schedule>(
      [
        { title: 'CHAT', text: ({ chat }) => chat },
        { title: 'NAME', text: ({ name }) => name },
        { title: 'STATE', text: ({ state }) => state },
        { title: 'NEXT', text: (each) => each.next_at ?? '' },
        { title: 'TIMES', text: timesText },
        { title: 'BY', text: (each) => each.made_by ?? '' },
        { title: 'RUN', text: (each) => `${each.last_run ?? ''}`, align: 'right' },
        { title: 'TEXT', text: ({ text }) => text, fits: true },
      ],
      list.items,
    );
  return exitCodes.ok;
}

function timesText({ cron, time_zone: zone, every_s: every }: Schedule): string {
  if (cron !== null) return `${cron} ${zone ?? ''}`;
  return every === null ? 'once' : `every ${every} s`;
}
