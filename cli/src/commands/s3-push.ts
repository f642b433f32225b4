/** `squash s3 push`: brings modules and snapshots to the bucket, and waits until they are there. */
import { move } from '../bucket-words.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson } from '../output/print.ts';

export async function run({ client, positionals: names, flags, json }: Call): Promise<number> {
  const moved = await move(client, { did: 'push', names, replace: flags.isSet('replace') }, json);
  if (json) printJson(moved);
  return exitCodes.ok;
}
