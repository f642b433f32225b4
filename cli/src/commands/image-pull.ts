/** `squash image pull`: has an image of a registry here, and prints its name. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { pullImage } from '../images.ts';
import { printJson, printLine, visible } from '../output/print.ts';

export async function run({ client, positionals, flags, json }: Call): Promise<number> {
  const image = await pullImage(client, positionals[0] ?? '', flags.isSet('again'));
  if (json) printJson(image);
  else printLine(visible(image.name));
  return exitCodes.ok;
}
