/** `squash group ls`: the groups, and what they do. */
import type { Group } from '@squash/contract/groups';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { type All, groupsPath } from '../group-paths.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ client, json }: Call): Promise<number> {
  const list = await client.get<All<Group>>(groupsPath());
  if (json) printJson(list);
  else
    printTable<Group>(
      [
        { title: 'NAME', text: ({ name }) => name },
        { title: 'TIER', text: ({ tier }) => tier },
        { title: 'MADE BY', text: (each) => each.created_by ?? '' },
        { title: 'WAITING', text: ({ queued }) => `${queued}`, align: 'right' },
        { title: 'RUNNING', text: ({ running }) => `${running}`, align: 'right' },
        { title: 'COMMAND', text: ({ command }) => command.join(' '), fits: true },
      ],
      list.items,
    );
  return exitCodes.ok;
}
