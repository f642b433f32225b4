/** `squash secret rm`: removes secrets. Their placeholders are put into no request any more, from the next one on. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { secretsPath } from './secret-ls.ts';

export async function run(call: Call): Promise<number> {
  for (const name of call.positionals) {
    await call.client.delete(secretsPath(name));
    if (!call.json) printLine(name);
  }
  if (call.json) printJson({ removed: call.positionals });
  return exitCodes.ok;
}
