/** `squash chat read`: what agents have said. They chose the text, so nothing in it reaches the terminal as it is. */
import { groupLimits } from '@squash/contract/group-limits';
import type { OutMessage } from '@squash/contract/groups';
import { apiPath, type Query } from '../client/client.ts';
import { followEvents } from '../client/follow.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import type { All } from '../group-paths.ts';
import { jsonText, printJson, printLine, visible } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const {
    client,
    positionals: [chat = ''],
    flags,
    json,
  } = call;
  if (flags.isSet('follow')) return await follow(call, chat);
  const query = {
    after: flags.integer('after', { min: 0, max: Number.MAX_SAFE_INTEGER }),
    limit: flags.integer('limit', { min: 1, max: groupLimits.pageItemsMax }),
  };
  const list = await client.get<All<OutMessage>>(messagesPath(chat, query));
  if (json) printJson(list);
  else for (const one of list.items) print(one);
  return exitCodes.ok;
}

async function follow({ client, flags, json }: Call, chat: string): Promise<never> {
  if (flags.isSet('limit')) throw usageFailure('--follow has no --limit');
  let after: string | number | undefined = flags.integer('after', { min: 0, max: Number.MAX_SAFE_INTEGER });
  return await followEvents<never>(client, {
    what: 'messages',
    request: () => ({ path: messagesPath(chat, { after, follow: 'true' }) }),
    onEvent: ({ name, id, data }) => {
      after = id ?? after;
      if (name !== 'said') return undefined;
      const said = JSON.parse(data) as OutMessage;
      if (json) printLine(jsonText(said));
      else print(said);
      return undefined;
    },
  });
}

function print({ message, by, text }: OutMessage): void {
  for (const line of text.replace(/\n$/, '').split('\n')) printLine(`${message} ${by}: ${visible(line)}`);
}

function messagesPath(chat: string, query: Query): string {
  return apiPath(['v1', 'chats', chat, 'messages'], query);
}
