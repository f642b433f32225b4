/** `squash resume`: ends a sandbox's rest. */
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import { sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { whileTold } from '../output/progress.ts';

export async function run(call: Call): Promise<number> {
  const [id = ''] = call.positionals;
  const record = await whileTold(`resuming ${id}`, call, () =>
    call.client.post<SandboxRecord>(sandboxRecordPath(id, 'resume'), {}),
  );
  if (call.json) printJson(record);
  else printLine(record.state);
  return exitCodes.ok;
}
