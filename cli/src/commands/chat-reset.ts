/** `squash chat reset`: throws the sessions of chats away. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { chatsPath } from '../group-paths.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ client, positionals, json }: Call): Promise<number> {
  for (const name of positionals) {
    await client.post(chatsPath(name, 'reset'), {});
    if (!json) printLine(name);
  }
  if (json) printJson({ reset: positionals });
  return exitCodes.ok;
}
