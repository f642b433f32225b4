/**
 * `squash module from-oci`: all of an image as one module, whatever it comes from. What was not an image here before is none afterwards.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Image } from '@squash/contract/image';
import type { Client } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { imagePath, importImage, moduleOfImage, plainName, pullImage } from '../images.ts';
import { noteUnstackable, showModule } from './module-upload.ts';

export async function run(call: Call): Promise<number> {
  const { client, flags } = call;
  const [source = ''] = call.positionals;
  const isFile = source.includes('/') && existsSync(source);
  const before = isFile ? undefined : await imageHere(client, source);
  const image = before ?? (await (isFile ? imported(call, source) : pullImage(client, source)));
  const name = call.positionals[1] ?? `100-${plainName(isFile ? source : image.name)}`;
  try {
    noteUnstackable(name);
    showModule(call, await moduleOfImage(client, image, { name, replace: flags.isSet('replace') }));
    return exitCodes.ok;
  } finally {
    if (before === undefined) await client.delete(imagePath(image.name));
  }
}

async function imageHere(client: Client, name: string): Promise<Image | undefined> {
  try {
    return await client.get<Image>(imagePath(name));
  } catch (error) {
    if (!(error instanceof CliFailure) || error.code !== 'image_not_found') throw error;
    return undefined;
  }
}

/** Under a name that nobody else has. */
async function imported({ client, flags }: Call, file: string): Promise<Image> {
  const name = `localhost/${plainName(file).toLowerCase()}:from-oci-${randomBytes(4).toString('hex')}`;
  return await importImage(client, file, { name, pick: flags.text('pick') });
}
