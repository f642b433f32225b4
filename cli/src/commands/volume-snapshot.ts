/** `squash volume snapshot`: copies a volume that is not attached, and prints the copy's name. */
import type { VolumeInfo } from '@squash/contract/volume';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { parseLabels, volumesPath } from '../mount-words.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ positionals, flags, client, json }: Call): Promise<number> {
  const [volume = '', name] = positionals;
  const snapshot = await client.post<VolumeInfo>(volumesPath(volume, 'snapshots'), {
    name,
    ...(flags.isSet('label') && { labels: parseLabels(flags.list('label')) }),
  });
  if (json) printJson(snapshot);
  else printLine(snapshot.name);
  return exitCodes.ok;
}
