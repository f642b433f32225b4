/** `squash group set`: changes a group, for runs that begin later. */
import type { Group } from '@squash/contract/groups';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { changeOf, groupBody } from '../group-body.ts';
import { clearedGroup } from '../group-cleared.ts';
import { groupsPath } from '../group-paths.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ positionals: [name = ''], rest, flags, client, json }: Call): Promise<number> {
  const said = { ...groupBody(flags), ...(rest.length > 0 && { command: rest }) };
  const group = await client.patch<Group>(groupsPath(name), changeOf(flags, said, clearedGroup));
  if (json) printJson(group);
  else printLine(group.name);
  return exitCodes.ok;
}
