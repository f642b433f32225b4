/** `squash ssh-key rm`: removes public keys. Nobody logs in with one any more; what it has open ends within two seconds. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { sshKeysPath } from './ssh-key-ls.ts';

export async function run(call: Call): Promise<number> {
  for (const id of call.positionals) await call.client.delete(sshKeysPath([id]));
  return exitCodes.ok;
}
