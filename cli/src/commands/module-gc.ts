/** `squash module gc`: removes unpacked layers that no sandbox stands on. */
import type { GcAnswer } from '@squash/contract/module';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine } from '../output/print.ts';

export async function run({ client, flags, json }: Call): Promise<number> {
  const done = await client.post<GcAnswer>(apiPath(['v1', 'gc']), { dry_run: flags.isSet('dry-run') });
  if (json) printJson(done);
  else printLine(sentence(done));
  return exitCodes.ok;
}

function sentence({ dry_run: isDry, trees, trees_in_use, trees_removed, bytes_freed }: GcAnswer): string {
  const verb = isDry ? 'Would remove' : 'Removed';
  return `${verb} ${trees_removed} of ${trees} unpacked layers, ${formatBytes(bytes_freed)}. In use: ${trees_in_use}.`;
}
