/**
 * `squash codemode serve`: an MCP server with `execute` and `search` over the configured servers' tools, on standard input and output or, for several clients
 * of this machine, over HTTP.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { idleGlobs, type McpServers, type ServeOptions, serveHttp, serveStdio } from '@squash/codemode/mcp';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printNote } from '../output/print.ts';
import { asFailure, openExecutor, openServers } from './codemode-setup.ts';

export async function run(call: Call): Promise<number> {
  const port = call.flags.integer('http', { min: 0, max: 65_535 });
  await using executor = await openExecutor(call, 1);
  await using servers = await openServers(call);
  const deny = call.flags.list('deny');
  refuseIdle(deny, servers);
  const options: ServeOptions = {
    executor,
    entries: servers.entries,
    ...(deny.length > 0 && { policy: { deny } }),
  };
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  try {
    const serving =
      port === undefined ? serveStdio(options, stop.signal) : serveUntil(stop.signal, { options, port });
    // Beside the service: a sandbox's first layer takes longer to build than clients wait for an answer.
    await Promise.race([serving, executor.init().then(() => serving)]);
  } catch (failure) {
    throw asFailure(failure);
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
  return exitCodes.ok;
}

/** A pattern that denies nothing was meant to deny something. The tools of a server that did not answer are not known. */
function refuseIdle(deny: readonly string[], servers: McpServers): void {
  const tools = servers.entries.map(({ path }) => path.join('.'));
  const [idle] = idleGlobs(deny, tools);
  if (idle === undefined) return;
  const example = tools[0] === undefined ? '' : `, which are called like ${tools[0]}`;
  const sentence = `--deny "${idle}" matches none of the tools${example}`;
  if (servers.failures.length === 0) throw usageFailure(sentence);
  printNote(`squash: ${sentence}`);
}

/** The token comes from the environment, which ps does not show, or is made for this one service. */
async function serveUntil(
  signal: AbortSignal,
  { options, port }: { readonly options: ServeOptions; readonly port: number },
): Promise<void> {
  const given = process.env['SQUASH_CODEMODE_TOKEN'];
  const token = given ? given : randomBytes(24).toString('base64url');
  await using service = await serveHttp({ ...options, port, token });
  printNote(`squash: serving on ${service.url}${given ? '' : ` with the token ${token}`}`);
  if (!signal.aborted) await once(signal, 'abort');
}
