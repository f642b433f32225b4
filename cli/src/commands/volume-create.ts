/** `squash volume create`: makes a volume and prints its name. */
import { limits } from '@squash/contract/limits';
import type { VolumeInfo } from '@squash/contract/volume';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { parseLabels, volumesPath } from '../mount-words.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';

export async function run({ positionals: [name], flags, client, json }: Call): Promise<number> {
  const size = { min: limits.volumeMbMin, max: limits.volumeMbMax };
  const volume = await client.post<VolumeInfo>(volumesPath(), {
    name,
    ...(flags.isSet('size') && { size_mb: flags.integer('size', size) }),
    ...(flags.isSet('from') && { from: flags.text('from') }),
    ...(flags.isSet('label') && { labels: parseLabels(flags.list('label')) }),
  });
  if (json) printJson(volume);
  else {
    for (const { message, code } of volume.warnings)
      printNote(`squash: warning: ${visible(message)} (${code})`);
    printLine(volume.name);
  }
  return exitCodes.ok;
}
