/** `squash s3 sync`: pushes what is here alone and pulls what is in the bucket alone. */
import { move, type Moved } from '../bucket-words.ts';
import { moduleSides, snapshotSides } from '../bucket-sync.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printFailure, printJson } from '../output/print.ts';

export async function run({ client, positionals: ids, json }: Call): Promise<number> {
  const sides =
    ids.length === 0
      ? [await moduleSides(client)]
      : await Promise.all(ids.map((id) => snapshotSides(client, id)));
  const moved: Moved[] = [];
  let isWhole = true;
  const moves = [
    ...sides.flatMap(({ here }) => here.map((name) => ({ did: 'push' as const, names: [name] }))),
    ...sides.flatMap(({ elsewhere }) => elsewhere.map((name) => ({ did: 'pull' as const, names: [name] }))),
  ];
  for (const each of moves) {
    try {
      moved.push(...(await move(client, each, json)));
    } catch (error) {
      // One that is another there, or broken, keeps none of the others; a bucket that is away ends it.
      if (!(error instanceof CliFailure) || !['bucket_conflict', 'layer_corrupt'].includes(error.code))
        throw error;
      isWhole = false;
      printFailure(error, false);
    }
  }
  if (json) printJson(moved);
  return isWhole ? exitCodes.ok : exitCodes.failed;
}
