/** `squash image rm`: removes images; layers that something else needs stay. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { imagePath } from '../images.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ client, positionals, json }: Call): Promise<number> {
  for (const name of positionals) {
    await client.delete(imagePath(name));
    if (!json) printLine(name);
  }
  if (json) printJson({ removed: positionals });
  return exitCodes.ok;
}
