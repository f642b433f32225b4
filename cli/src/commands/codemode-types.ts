/** `squash codemode types`: TypeScript declarations of the configured servers' tools, for a prompt or an editor. */
import { declarationsOf, ToolSearch, withSearch } from '@squash/codemode';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, visibleLines } from '../output/print.ts';
import { openServers } from './codemode-setup.ts';

export async function run(call: Call): Promise<number> {
  await using servers = await openServers(call);
  // Declarations of nothing are not what was asked for, and each server's reason is told.
  if (servers.entries.length === 0 && servers.failures.length > 0) return exitCodes.failed;
  const query = call.flags.text('search');
  if (query !== undefined) {
    const found = new ToolSearch(servers.entries).find(query, 20);
    if (call.json) printJson(found);
    else for (const { signature } of found) printLine(visibleLines(signature));
    return exitCodes.ok;
  }
  if (call.json)
    printJson(
      servers.entries.map(({ path, description, input, output }) => ({
        name: path.join('.'),
        description,
        input,
        output,
      })),
    );
  else printLine(visibleLines(declarationsOf(withSearch(servers.entries)).trimEnd()));
  return exitCodes.ok;
}
