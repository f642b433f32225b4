/** `squash image import`: sends an archive or an OCI layout to the daemon, which takes the image in. */
import { statSync } from 'node:fs';
import type { Image } from '@squash/contract/image';
import { apiPath } from '../client/client.ts';
import { openImage } from '../client/image-source.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { withProgress } from '../output/progress.ts';
import { packed } from '../sync/send-directory.ts';

export async function run({ client, positionals, flags, json }: Call): Promise<number> {
  const file = positionals[0] ?? '';
  const isDirectory = file !== '-' && statSync(file, { throwIfNoEntry: false })?.isDirectory() === true;
  const source = isDirectory ? { stream: packed(file), bytes: undefined } : await openImage(file);
  const path = apiPath(['v1', 'images'], { name: flags.text('name'), pick: flags.text('pick') });
  const body = withProgress(source.stream, { label: file, bytes: source.bytes });
  const image = await client.upload<Image>(path, body, source.bytes);
  if (json) printJson(image);
  else printLine(visible(image.name));
  return exitCodes.ok;
}
