/** `squash schedule rm`: removes a schedule with its history. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { schedulesPath } from '../group-paths.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ client, positionals: [chat = '', name = ''], json }: Call): Promise<number> {
  await client.delete(schedulesPath([chat, name]));
  if (json) printJson({ removed: [name] });
  else printLine(name);
  return exitCodes.ok;
}
