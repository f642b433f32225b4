/** `squash module from-dockerfile`: what a Dockerfile builds, as one module. */
import { resolve } from 'node:path';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { moduleOfImage, plainName } from '../images.ts';
import { build } from './build.ts';
import { noteUnstackable, showModule } from './module-upload.ts';

export async function run(call: Call): Promise<number> {
  const { client, flags, positionals } = call;
  const [context = '.', name = `100-${plainName(resolve(context))}`] = positionals;
  const image = await build(call, { context });
  noteUnstackable(name);
  showModule(call, await moduleOfImage(client, image, { name, replace: flags.isSet('replace') }));
  return exitCodes.ok;
}
