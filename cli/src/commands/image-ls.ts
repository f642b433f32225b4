/** `squash image ls`: the images that are here. */
import type { Image } from '@squash/contract/image';
import { listAll } from '../client/pages.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { imagesPath } from '../images.ts';
import { formatBytes, printJson, printLine, printNote, visible } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ client, flags, json }: Call): Promise<number> {
  const images = await listAll<Image>(client, imagesPath, { all: flags.isSet('all') ? 'true' : undefined });
  if (json) printJson(images);
  else if (flags.isSet('quiet')) for (const each of images) printLine(visible(each.name));
  else if (images.length === 0) printNote('No image yet: "squash image pull NAME" has one from a registry.');
  else
    printTable<Image>(
      [
        { title: 'NAME', text: (each) => visible(each.name) },
        { title: 'ID', text: (each) => each.id.slice('sha256:'.length, 'sha256:'.length + 12) },
        { title: 'LAYERS', text: (each) => `${each.layers}`, align: 'right' },
        { title: 'SIZE', text: (each) => formatBytes(each.size_bytes), align: 'right' },
      ],
      images,
    );
  return exitCodes.ok;
}
