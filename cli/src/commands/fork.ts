/** `squash fork`: a sandbox with the files of another one; prints its id. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { createNative, showMade } from './create-native.ts';

export async function run(call: Call): Promise<number> {
  const [sandbox = '', snapshot] = call.positionals;
  const from = snapshot === undefined ? { sandbox } : { sandbox, snapshot };
  showMade(call, await createNative(call, from));
  return exitCodes.ok;
}
