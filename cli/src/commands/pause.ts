/** `squash pause`: puts a sandbox to rest until `squash resume`. */
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import { sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ client, flags, positionals, json }: Call): Promise<number> {
  const keep = flags.text('keep');
  const path = sandboxRecordPath(positionals[0] ?? '', 'pause');
  const record = await client.post<SandboxRecord>(path, keep === undefined ? {} : { keep });
  if (json) printJson(record);
  else printLine(record.state);
  return exitCodes.ok;
}
