/** `squash module rm`: removes modules; one that a sandbox is built on is refused. */
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  for (const name of call.positionals) {
    await call.client.delete(apiPath(['v1', 'modules', name]));
    if (!call.json) printLine(name);
  }
  if (call.json) printJson({ removed: call.positionals });
  return exitCodes.ok;
}
