/** `squash group runs`: what a group's agents were started for, and how that ended. */
import { groupLimits } from '@squash/contract/group-limits';
import type { Run } from '@squash/contract/groups';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import type { All } from '../group-paths.ts';
import { formatAge, printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ client, positionals: [group = ''], flags, json }: Call): Promise<number> {
  const limit = flags.integer('limit', { min: 1, max: groupLimits.pageItemsMax });
  const list = await client.get<All<Run>>(apiPath(['v1', 'groups', group, 'runs'], { limit }));
  if (json) printJson(list);
  else
    printTable<Run>(
      [
        { title: 'RUN', text: (each) => `${each.run}`, align: 'right' },
        { title: 'AGE', text: (each) => formatAge(each.created_at), align: 'right' },
        { title: 'CHAT', text: ({ chat }) => chat },
        { title: 'STATE', text: ({ state }) => state },
        { title: 'WARM', text: ({ warm }) => (warm ? 'yes' : '') },
        { title: 'TRY', text: ({ attempt }) => `${attempt}`, align: 'right' },
        { title: 'EXIT', text: (each) => `${each.exit_code ?? ''}`, align: 'right' },
        {
          title: 'OUTPUT',
          text: (each) => `${each.output_bytes}${each.truncated ? '+' : ''}`,
          align: 'right',
        },
        { title: 'REASON', text: ({ reason }) => reason ?? '', fits: true },
      ],
      list.items,
    );
  return exitCodes.ok;
}
