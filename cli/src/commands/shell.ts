/** `squash shell`: bash where the sandbox has it, else sh; on a terminal, or fed from standard input. */
import { isatty } from 'node:tty';
import type { Call } from '../command.ts';
import { execInSandbox } from './exec.ts';
import { readEnvironment, readUser, readWorkdir } from './exec-options.ts';

const findShell = 'if [ -x /bin/bash ]; then exec /bin/bash -l; else exec /bin/sh -l; fi';

export async function run(call: Call): Promise<number> {
  const tty = isatty(0);
  return await execInSandbox(call, call.positionals[0] ?? '', {
    argv: ['/bin/sh', '-c', findShell],
    env: readEnvironment(call.flags),
    cwd: readWorkdir(call.flags),
    user: readUser(call.flags),
    timeoutMs: undefined,
    tty,
    stdin: true,
    output: call.json ? 'discard' : 'print',
  });
}
