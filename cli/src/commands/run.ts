/** `squash run`: a sandbox for one command. It is destroyed however the command ends, unless `--keep`. */
import { sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { printNote } from '../output/print.ts';
import { createSandbox } from './create.ts';
import { execInSandbox } from './exec.ts';
import { readExecWish } from './exec-options.ts';

export async function run(call: Call): Promise<number> {
  // Read first: a wrong option must not leave a sandbox behind.
  const wish = readExecWish(call);
  const { id } = await createSandbox(call, undefined, [call.positionals[0] ?? '']);
  try {
    return await execInSandbox(call, id, wish);
  } finally {
    if (call.flags.isSet('keep')) printNote(`squash: kept the sandbox ${id}`);
    else await call.client.delete(sandboxPath(id));
  }
}
