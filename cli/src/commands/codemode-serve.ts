/**
 * `squash codemode serve`: an MCP server with `execute` and `search` over the configured servers' tools, on standard input and output or, for several clients
 * of this machine, over HTTP.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type ServeOptions, serveHttp, serveStdio } from '@squash/codemode/mcp';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printNote } from '../output/print.ts';
import { asFailure, openExecutor, openServers, refuseIdle } from './codemode-setup.ts';

export async function run(call: Call): Promise<number> {
  const port = call.flags.integer('http', { min: 0, max: 65_535 });
  await using executor = await openExecutor(call, 1);
  await using servers = await openServers(call);
  const deny = call.flags.list('deny');
  refuseIdle('deny', deny, servers);
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
