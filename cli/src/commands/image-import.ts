/** `squash image import`: sends an archive or an OCI layout to the daemon, which takes the image in. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { importImage } from '../images.ts';
import { printJson, printLine, visible } from '../output/print.ts';

export async function run({ client, positionals, flags, json }: Call): Promise<number> {
  const names = { name: flags.text('name'), pick: flags.text('pick') };
  const image = await importImage(client, positionals[0] ?? '', names);
  if (json) printJson(image);
  else printLine(visible(image.name));
  return exitCodes.ok;
}
