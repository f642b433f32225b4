/** `squash activate`: one more module on a live sandbox. */
import type { SandboxInfo } from '@squash/contract/sandbox';
import { sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { printInfo } from './info.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', module] = call.positionals;
  const info = await call.client.post<SandboxInfo>(sandboxPath(id, ['activate']), { module });
  if (call.json) printJson(info);
  else printInfo(info);
  return exitCodes.ok;
}
