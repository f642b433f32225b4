/** `squash group show`: one group, field by field, under the API's own names. */
import type { Group } from '@squash/contract/groups';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { groupsPath } from '../group-paths.ts';
import { printJson } from '../output/print.ts';
import { printInfo } from './info.ts';

export async function run({ client, positionals: [name = ''], json }: Call): Promise<number> {
  const group = await client.get<Group>(groupsPath(name));
  if (json) printJson(group);
  else
    printInfo({
      ...group,
      command: group.command.join(' '),
      mounts: group.mounts.map(({ host, path, mode }) => `${host}:${path}:${mode}`),
    });
  return exitCodes.ok;
}
