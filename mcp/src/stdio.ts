/** One client on standard input and output: one session, which ends when the client goes or `signal` says so. */
import { serveStdio as serve } from '@modelcontextprotocol/server/stdio';
import type { McpOptions } from './options.ts';
import { makeServer } from './server.ts';
import { Session } from './session.ts';

export async function serveStdio(options: McpOptions, signal: AbortSignal): Promise<void> {
  await using session = new Session(options);
  const over = new Promise<void>((settle) => {
    process.stdin.once('end', settle).once('close', settle);
    // Whoever read us has gone.
    process.stdout.once('error', settle);
    signal.addEventListener('abort', () => settle(), { once: true });
  });
  // A client that first asks which versions there are has two servers made: both are of this session.
  const served = serve(() => makeServer(session));
  if (!signal.aborted) await over;
  await served.close();
}
