/** `squash chat ls`: the chats, and who starts runs in them. */
import type { Chat } from '@squash/contract/groups';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { type All, chatsPath } from '../group-paths.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ client, json }: Call): Promise<number> {
  const list = await client.get<All<Chat>>(chatsPath());
  if (json) printJson(list);
  else
    printTable<Chat>(
      [
        { title: 'NAME', text: ({ name }) => name },
        { title: 'GROUP', text: ({ group }) => group },
        { title: 'TRIGGER', text: ({ trigger }) => trigger ?? '' },
        { title: 'WAITING', text: ({ waiting }) => `${waiting}`, align: 'right' },
        { title: 'SENDERS', text: ({ senders }) => (senders === '*' ? '*' : senders.join(',')), fits: true },
      ],
      list.items,
    );
  return exitCodes.ok;
}
