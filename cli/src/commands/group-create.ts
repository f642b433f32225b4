/** `squash group create`: makes a group and prints its name. */
import { profileCommands } from '@squash/contract/group-profiles';
import type { Group } from '@squash/contract/groups';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { groupBody, profileOf } from '../group-body.ts';
import { groupsPath } from '../group-paths.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ positionals: [name], rest, flags, client, json }: Call): Promise<number> {
  const profile = profileOf(flags);
  if (rest.length === 0 && profile === undefined)
    throw usageFailure('<command> is missing; try: squash help group create');
  const made = await client.post<Group>(groupsPath(), {
    name,
    tier: 'untrusted',
    command: rest.length === 0 && profile !== undefined ? profileCommands[profile] : rest,
    ...groupBody(flags),
  });
  if (json) printJson(made);
  else printLine(made.name);
  return exitCodes.ok;
}
