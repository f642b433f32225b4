/** `squash restore`: the writable layer as a snapshot kept it. */
import type { SandboxInfo } from '@squash/contract/sandbox';
import { apiPath, sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { whileTold } from '../output/progress.ts';
import { printInfo } from './info.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', label] = call.positionals;
  const info = await whileTold(`putting ${id} back`, call, () =>
    call.flags.isSet('with-memory')
      ? goOn(call, id, label)
      : call.client.post<SandboxInfo>(sandboxPath(id, ['restore']), { label }),
  );
  if (call.json) printJson(info);
  else printInfo(info);
  return exitCodes.ok;
}

/** Only `/v1` knows memory; what it is then is told in the same words. */
async function goOn({ client }: Call, id: string, snapshot: string | undefined): Promise<SandboxInfo> {
  await client.post(apiPath(['v1', 'sandboxes', id, 'restore']), { snapshot, memory: true });
  return await client.get<SandboxInfo>(sandboxPath(id));
}
