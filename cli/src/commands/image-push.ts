/** `squash image push`: sends an image to a registry, and prints what it is called there. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { pushImage } from '../images.ts';
import { printJson, printLine, visible } from '../output/print.ts';

export async function run({ client, positionals, json }: Call): Promise<number> {
  const [image = '', destination] = positionals;
  const push = await pushImage(client, image, destination);
  if (json) printJson(push);
  else printLine(`${visible(push.destination)}  ${visible(push.digest ?? '')}`);
  return exitCodes.ok;
}
