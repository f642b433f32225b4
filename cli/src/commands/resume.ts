/** `squash resume`: ends a sandbox's rest. */
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import { sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ client, positionals, json }: Call): Promise<number> {
  const record = await client.post<SandboxRecord>(sandboxRecordPath(positionals[0] ?? '', 'resume'), {});
  if (json) printJson(record);
  else printLine(record.state);
  return exitCodes.ok;
}
