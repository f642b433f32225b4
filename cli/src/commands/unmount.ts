/** `squash unmount`: detaches what a sandbox has at a path, or by the mount's id. */
import type { MountInfo } from '@squash/contract/volume';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { mountsPath } from '../mount-words.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ positionals, client, json }: Call): Promise<number> {
  const [id = '', path = ''] = positionals;
  const { items } = await client.get<{ readonly items: readonly MountInfo[] }>(mountsPath(id));
  const mount = items.find((each) => each.path === path || each.id === path);
  if (mount === undefined)
    throw new CliFailure(
      'mount_not_found',
      `sandbox "${id}" has nothing attached at "${path}"`,
      exitCodes.failed,
    );
  await client.delete(mountsPath(id, mount.id));
  if (json) printJson(mount);
  else printLine(mount.path);
  return exitCodes.ok;
}
