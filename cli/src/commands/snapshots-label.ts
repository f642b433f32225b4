/** `squash snapshots label`: other labels for a snapshot, or another name. */
import type { SnapshotDetails } from '@squash/contract/native-snapshot';
import { snapshotPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { labelChangesOf, labelWords } from '../label-words.ts';
import { printJson, printLine, visible } from '../output/print.ts';

export async function run({ client, flags, positionals, json }: Call): Promise<number> {
  const [id = '', label = '', ...changes] = positionals;
  const patch = {
    ...(flags.isSet('rename') && { label: flags.text('rename') }),
    ...(changes.length > 0 && { labels: labelChangesOf(changes) }),
  };
  if (Object.keys(patch).length === 0) throw usageFailure('a change is missing: KEY=VALUE, KEY- or --rename');
  const snapshot = await client.patch<SnapshotDetails>(snapshotPath(id, [label]), patch);
  if (json) printJson(snapshot);
  else printLine(`${snapshot.label}  ${visible(labelWords(snapshot.labels))}`.trimEnd());
  return exitCodes.ok;
}
