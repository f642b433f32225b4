/** `squash chat create`: makes a chat of a group and prints its name. */
import type { Chat } from '@squash/contract/groups';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { chatBody } from '../group-body.ts';
import { chatsPath } from '../group-paths.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ client, positionals: [name, group], flags, json }: Call): Promise<number> {
  const made = await client.post<Chat>(chatsPath(), { name, group, ...chatBody(flags) });
  if (json) printJson(made);
  else printLine(made.name);
  return exitCodes.ok;
}
