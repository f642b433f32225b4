/** `squash box rm`: removes boxes. Several are tried even where one fails; the exit code tells. */
import { findBox } from '../box/boxes.ts';
import { sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printFailure, printJson, printLine } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const removed: string[] = [];
  let failed = false;
  for (const word of call.positionals) {
    try {
      const { daemon, box } = await findBox(call, word);
      await daemon.client.delete(sandboxRecordPath(box.id));
      removed.push(box.id);
      if (!call.json) printLine(box.id);
    } catch (failure) {
      if (!(failure instanceof CliFailure) || failure.exitCode === exitCodes.unreachable) throw failure;
      if (failure.code === 'sandbox_not_found' && call.flags.isSet('force')) continue;
      printFailure(failure, call.json);
      failed = true;
    }
  }
  if (call.json) printJson({ removed });
  return failed ? exitCodes.failed : exitCodes.ok;
}
