/** `squash image inspect`: one image, field by field. */
import type { Image } from '@squash/contract/image';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { imagePath } from '../images.ts';
import { printJson } from '../output/print.ts';
import { printInfo } from './info.ts';

export async function run({ client, positionals, json }: Call): Promise<number> {
  const image = await client.get<Image>(imagePath(positionals[0] ?? ''));
  if (json) printJson(image);
  else printInfo(image);
  return exitCodes.ok;
}
