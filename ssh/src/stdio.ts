/**
 * SSH over this process's standard input and output: what `ProxyCommand` starts. The pipe belongs to the user who started the client and
 * this, so nobody has to prove who he is; the daemon asks for his credential as always.
 */
import { Duplex } from 'node:stream';
import { serveConnection } from './connection.ts';
import type { Daemon } from './daemon.ts';

export interface StdioOptions {
  readonly daemon: Daemon;
  readonly sandbox: string;
  readonly hostKey: string;
}

/** Resolves when the client has gone. */
export async function serveStdio({ daemon, sandbox, hostKey }: StdioOptions): Promise<void> {
  const pipe = Duplex.from({ readable: process.stdin, writable: process.stdout });
  await serveConnection(pipe, {
    hostKey,
    methods: ['none'],
    attemptsMax: 8,
    loginMs: 60_000,
    // A client that is stopped for an hour has not gone: the pipe would tell.
    keepAliveMs: 0,
    login: async ({ username, method }) => {
      if (method !== 'none') return undefined;
      return { daemon, sandbox, user: username === 'root' ? undefined : username };
    },
  });
}
