/** The address of the TCP listener: whether it is to be had, and why not, in words. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { AppError } from '@squash/contract/errors';

const againMs = 50;

/**
 * Asked before anything is taken over: the listener itself comes last, and a start that failed there would have
 * started every sandbox first.
 * @param waitMs how long the address may be somebody else's: a `quickstart` holds it for the moment of its own question
 * @throws config_invalid
 */
export async function checkListen(host: string, port: number, waitMs = 0): Promise<void> {
  const endMs = performance.now() + waitMs;
  for (;;) {
    try {
      return await tryListen(host, port);
    } catch (error) {
      const isTaken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
      if (!isTaken || performance.now() >= endMs) throw listenFailure(error, host, port);
    }
    await setTimeout(againMs);
  }
}

async function tryListen(host: string, port: number): Promise<void> {
  // Whoever comes in that moment is too early, and must not hold up the close.
  const server = createServer((socket) => socket.destroy());
  server.listen({ host, port });
  await once(server, 'listening');
  server.close();
  await once(server, 'close');
}

/** @returns config_invalid with what would mend it */
export function listenFailure(error: unknown, host: string, port: number): AppError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const why: Readonly<Record<string, string>> = {
    EADDRINUSE:
      'another program listens there, perhaps another Squash: stop it, or name another port: SQUASH_PORT=8081',
    EACCES: 'ports below 1024 need a privilege: set SQUASH_PORT',
    EADDRNOTAVAIL: 'this machine has no such address: set SQUASH_HOST',
    ENOTFOUND: 'the name does not resolve: set SQUASH_HOST',
  };
  const reason = why[code] ?? (error as Error).message;
  return new AppError('config_invalid', `Cannot listen on ${host}:${port}: ${reason}`, { cause: error });
}
