/** `squash codemode serve`: an MCP server on standard input and output, with `execute` and `search` over the configured servers' tools. */
import { serveStdio } from '@squash/codemode/mcp';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { asFailure, openExecutor, openServers } from './codemode-setup.ts';

export async function run(call: Call): Promise<number> {
  await using executor = await openExecutor(call, 1);
  await using servers = await openServers(call);
  const deny = call.flags.list('deny');
  try {
    const serving = serveStdio({
      executor,
      entries: servers.entries,
      ...(deny.length > 0 && { policy: { deny } }),
    });
    // Beside the service: a sandbox's first layer takes longer to build than clients wait for an answer.
    await Promise.all([executor.init(), serving]);
  } catch (failure) {
    throw asFailure(failure);
  }
  return exitCodes.ok;
}
