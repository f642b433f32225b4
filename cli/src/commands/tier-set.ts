/** `squash tier set`: a tier out of a file. What it may say is the daemon's matter. */
import type { Tier } from '@squash/contract/tiers';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { tiersPath } from '../group-paths.ts';
import { printJson, printLine } from '../output/print.ts';
import { readJsonFile } from '../json-file.ts';

export async function run({ client, positionals: [name = '', file = ''], json }: Call): Promise<number> {
  const tier = await client.put<Tier>(tiersPath(name), readJsonFile(file, 'tier'));
  if (json) printJson(tier);
  else printLine(tier.name);
  return exitCodes.ok;
}
