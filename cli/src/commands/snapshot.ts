/** `squash snapshot`: keeps the writable layer; prints the label. */
import type { SnapshotTaken } from '@squash/contract/native-snapshot';
import { sandboxPath, snapshotPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { labelsOf } from '../label-words.ts';
import { formatBytes, printJson, printLine, printNote } from '../output/print.ts';
import { whileTold } from '../output/progress.ts';

interface Taken {
  readonly snapshot: string;
  readonly size: number;
}

export async function run(call: Call): Promise<number> {
  const [id = '', label] = call.positionals;
  const body = label === undefined ? {} : { label };
  const { flags } = call;
  const taken = await whileTold(`saving ${id}`, call, () =>
    flags.isSet('label') || flags.isSet('with-memory')
      ? takeNative(call, id, body)
      : call.client.post<Taken>(sandboxPath(id, ['snapshot']), body),
  );
  if (call.json) {
    printJson(taken);
  } else {
    printLine(taken.snapshot);
    if (process.stderr.isTTY) printNote(formatBytes(taken.size));
  }
  return exitCodes.ok;
}

/** Only `/v1` knows labels and memory. The names of the other answer stand beside its own. */
async function takeNative({ client, flags }: Call, id: string, body: object): Promise<Taken> {
  const taken = await client.post<SnapshotTaken>(snapshotPath(id), {
    ...body,
    ...(flags.isSet('label') && { labels: labelsOf(flags) }),
    ...(flags.isSet('with-memory') && { memory: true }),
  });
  return { ...taken, snapshot: taken.label, size: taken.size_bytes };
}
