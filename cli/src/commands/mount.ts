/** `squash mount`: attaches a volume or a directory of the host to a sandbox, or tells what is attached. */
import type { MountInfo } from '@squash/contract/volume';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { mountsPath, parseMount } from '../mount-words.ts';
import { printJson, printLine } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run({ positionals, client, json }: Call): Promise<number> {
  const [id = '', word] = positionals;
  if (word !== undefined) {
    const mount = await client.post<MountInfo>(mountsPath(id), parseMount(word));
    if (json) printJson(mount);
    else printLine(mount.path);
    return exitCodes.ok;
  }
  const { items } = await client.get<{ readonly items: readonly MountInfo[] }>(mountsPath(id));
  if (json) printJson(items);
  else {
    printTable<MountInfo>(
      [
        { title: 'PATH', text: (each) => each.path },
        { title: 'MODE', text: (each) => each.mode },
        { title: 'SOURCE', text: (each) => each.volume ?? each.host ?? '' },
        { title: 'ID', text: (each) => each.id },
      ],
      items,
    );
  }
  return exitCodes.ok;
}
