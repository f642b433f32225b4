/** `squash schedule runs`: a line for each time of a schedule that came. */
import { groupLimits } from '@squash/contract/group-limits';
import type { ScheduleRun } from '@squash/contract/schedules';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { type All, schedulesPath } from '../group-paths.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({
  client,
  positionals: [chat = '', name = ''],
  flags,
  json,
}: Call): Promise<number> {
  const limit = flags.integer('limit', { min: 1, max: groupLimits.pageItemsMax });
  const list = await client.get<All<ScheduleRun>>(schedulesPath([chat, name, 'runs'], { limit }));
  if (json) printJson(list);
  else
    printTable<ScheduleRun>(
      [
        { title: 'TIME', text: (each) => each.due_at },
        { title: 'VERDICT', text: ({ verdict }) => verdict },
        { title: 'RUN', text: (each) => `${each.run ?? ''}`, align: 'right' },
        { title: 'STATE', text: ({ state }) => state ?? '' },
        { title: 'REASON', text: ({ reason }) => reason ?? '', fits: true },
      ],
      list.items,
    );
  return exitCodes.ok;
}
