/** `squash keys rm`: removes keys. The next request with one is refused; what it has open ends within two seconds. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { keysPath } from './keys-ls.ts';

export async function run(call: Call): Promise<number> {
  for (const id of call.positionals) {
    await call.client.delete(keysPath([id]));
    if (!call.json) printLine(id);
  }
  if (call.json) printJson({ removed: call.positionals });
  return exitCodes.ok;
}
