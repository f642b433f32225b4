/** `squash snapshots rm`: removes snapshots; what lies on them goes on. */
import { snapshotPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', ...labels] = call.positionals;
  for (const label of labels) {
    await call.client.delete(snapshotPath(id, [label]));
    if (!call.json) printLine(label);
  }
  if (call.json) printJson({ removed: labels });
  return exitCodes.ok;
}
