/** `squash volume rm`: removes volumes that no sandbox has attached. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { volumesPath } from '../mount-words.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ positionals, client, json }: Call): Promise<number> {
  for (const name of positionals) {
    await client.delete(volumesPath(name));
    if (!json) printLine(name);
  }
  if (json) printJson({ removed: positionals });
  return exitCodes.ok;
}
