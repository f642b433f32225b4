/** `squash chat read`: what agents have said. They chose the text, so nothing in it reaches the terminal as it is. */
import { groupLimits } from '@squash/contract/group-limits';
import type { OutMessage } from '@squash/contract/groups';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import type { All } from '../group-paths.ts';
import { printJson, printLine, visible } from '../output/print.ts';

export async function run({ client, positionals: [chat = ''], flags, json }: Call): Promise<number> {
  const query = {
    after: flags.integer('after', { min: 0, max: Number.MAX_SAFE_INTEGER }),
    limit: flags.integer('limit', { min: 1, max: groupLimits.pageItemsMax }),
  };
  const list = await client.get<All<OutMessage>>(apiPath(['v1', 'chats', chat, 'messages'], query));
  if (json) printJson(list);
  else
    for (const { message, by, text } of list.items)
      for (const line of text.replace(/\n$/, '').split('\n')) printLine(`${message} ${by}: ${visible(line)}`);
  return exitCodes.ok;
}
