/** `squash chat message`: brings a message in, and says what becomes of it. */
import type { MessageTaken } from '@squash/contract/groups';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { chatsPath } from '../group-paths.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ client, positionals: [chat = '', text], flags, json }: Call): Promise<number> {
  const taken = await client.post<MessageTaken>(chatsPath(chat, 'messages'), {
    sender: flags.text('sender') ?? 'operator',
    text,
    ...(flags.isSet('id') && { id: flags.text('id') }),
  });
  if (json) printJson(taken);
  else printLine(`${taken.verdict}${taken.run === null ? '' : ` run ${taken.run}`}: ${taken.reason}`);
  return exitCodes.ok;
}
