/** `squash s3 pull`: brings modules and snapshots from the bucket. */
import { move } from '../bucket-words.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson } from '../output/print.ts';

export async function run({ client, positionals: names, json }: Call): Promise<number> {
  const moved = await move(client, { did: 'pull', names }, json);
  if (json) printJson(moved);
  return exitCodes.ok;
}
