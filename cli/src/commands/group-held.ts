/** `squash group held`: what agents have asked for, all of it: an agent chose every word of the last column. */
import type { Action } from '@squash/contract/actions';
import { groupLimits } from '@squash/contract/group-limits';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { actionsPath, type All } from '../group-paths.ts';
import { formatAge, printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ client, flags, json }: Call): Promise<number> {
  const query = {
    state: flags.text('state') ?? 'held',
    group: flags.text('group'),
    limit: flags.integer('limit', { min: 1, max: groupLimits.pageItemsMax }),
  };
  const list = await client.get<All<Action>>(actionsPath([], query));
  if (json) printJson(list);
  else
    printTable<Action>(
      [
        { title: 'NUMBER', text: ({ number }) => `${number}`, align: 'right' },
        { title: 'AGE', text: (each) => formatAge(each.asked_at), align: 'right' },
        { title: 'GROUP', text: ({ group }) => group },
        { title: 'STATE', text: ({ state }) => state },
        { title: 'RULE', text: ({ rule }) => rule },
        { title: 'WANTED', text: ({ request }) => JSON.stringify(request) },
      ],
      list.items,
    );
  return exitCodes.ok;
}
