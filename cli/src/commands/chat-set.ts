/** `squash chat set`: changes what starts runs in a chat, for messages that come later. */
import type { Chat } from '@squash/contract/groups';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { changeOf, chatBody } from '../group-body.ts';
import { clearedChat } from '../group-cleared.ts';
import { chatsPath } from '../group-paths.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ client, positionals: [name = ''], flags, json }: Call): Promise<number> {
  const chat = await client.patch<Chat>(chatsPath(name), changeOf(flags, chatBody(flags), clearedChat));
  if (json) printJson(chat);
  else printLine(chat.name);
  return exitCodes.ok;
}
