/** `squash snapshot`: keeps the writable layer; prints the label. */
import type { SnapshotTaken } from '@squash/contract/native-snapshot';
import { sandboxPath, snapshotPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { labelsOf } from '../label-words.ts';
import { formatBytes, printJson, printLine, printNote } from '../output/print.ts';

interface Taken {
  readonly snapshot: string;
  readonly size: number;
}

export async function run(call: Call): Promise<number> {
  const [id = '', label] = call.positionals;
  const body = label === undefined ? {} : { label };
  const taken = call.flags.isSet('label')
    ? await takeLabelled(call, id, body)
    : await call.client.post<Taken>(sandboxPath(id, ['snapshot']), body);
  if (call.json) {
    printJson(taken);
  } else {
    printLine(taken.snapshot);
    if (process.stderr.isTTY) printNote(formatBytes(taken.size));
  }
  return exitCodes.ok;
}

/** Only `/v1` knows labels. The names of the other answer stand beside its own. */
async function takeLabelled({ client, flags }: Call, id: string, body: object): Promise<Taken> {
  const taken = await client.post<SnapshotTaken>(snapshotPath(id), { ...body, labels: labelsOf(flags) });
  return { ...taken, snapshot: taken.label, size: taken.size_bytes };
}
