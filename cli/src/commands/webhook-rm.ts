/** `squash webhook rm`: removes webhooks. */
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { webhooksPath } from './webhook-ls.ts';

export async function run(call: Call): Promise<number> {
  for (const id of call.positionals) {
    await call.client.delete(webhooksPath(id));
    if (!call.json) printLine(id);
  }
  if (call.json) printJson({ removed: call.positionals });
  return exitCodes.ok;
}
