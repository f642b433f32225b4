/** `squash mount`: attaches a volume or a directory of the host to a sandbox, or tells what is attached. */
import type { MountInfo } from '@squash/contract/volume';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { modeWords, mountsPath, parseMount } from '../mount-words.ts';
import { printJson, printLine } from '../output/print.ts';
import { printTable } from '../output/table.ts';
import { listVolumes } from './volume-ls.ts';

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
    const nameOf = await volumeNames(client, items);
    printTable<MountInfo>(
      [
        { title: 'PATH', text: (each) => each.path },
        { title: 'MODE', text: (each) => modeWords(each) },
        { title: 'SOURCE', text: (each) => nameOf(each) },
        { title: 'ID', text: (each) => each.id },
      ],
      items,
    );
  }
  return exitCodes.ok;
}

/** As the caller knows them: a mount tells the volume's id. */
async function volumeNames(
  client: Call['client'],
  mounts: readonly MountInfo[],
): Promise<(mount: MountInfo) => string> {
  const isNeeded = mounts.some(({ volume }) => volume !== null);
  const names = new Map(
    (isNeeded ? await listVolumes(client) : []).map(({ id, name }) => [id as string, name]),
  );
  return ({ volume, host }) => (volume === null ? (host ?? '') : (names.get(volume) ?? volume));
}
