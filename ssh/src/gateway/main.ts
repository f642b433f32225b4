/**
 * The SSH gateway: a process beside the daemon that speaks with the world and holds nothing but its host key.
 *
 * It is started with a listener (by message), the directory of the API's socket for it (descriptor 4), and its host key on standard input,
 * whose end is the daemon's. Whoever takes it over gets those who log in by way of it, while they do: the daemon itself looks at what a
 * client has signed.
 */
import { once } from 'node:events';
import type { Server, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { sshLimits } from '@squash/contract/ssh-limits';
import { serveConnection } from '../connection.ts';
import { Guests } from './guests.ts';
import { Visitor } from './visitor.ts';

const apiSocket = '/proc/self/fd/4/api.sock';

async function main(): Promise<void> {
  const lines = createInterface({ input: process.stdin });
  const heard = Promise.all([once(process, 'message'), once(lines, 'line')]);
  lines.once('close', () => process.exit(0));
  const [message, [line]] = await heard;
  const { hostKey } = JSON.parse(String(line)) as { readonly hostKey: string };
  const listener = message[1] as Server;
  const guests = new Guests();
  listener.on('connection', (socket: Socket) => void serve(socket, hostKey, guests));
  listener.on('error', (error: Error) => {
    process.stderr.write(`${error.message}\n`);
  });
}

async function serve(socket: Socket, hostKey: string, guests: Guests): Promise<void> {
  const place = guests.take(socket.remoteAddress ?? '');
  if (place === undefined) return void socket.destroy();
  socket.setNoDelay(true);
  using visitor = new Visitor(apiSocket, socket.remoteAddress ?? '');
  await serveConnection(socket, {
    hostKey,
    methods: ['publickey'],
    attemptsMax: sshLimits.attemptsMax,
    loginMs: sshLimits.loginWaitMs,
    keepAliveMs: sshLimits.keepAliveMs,
    login: async (request) => {
      const login = await visitor.login(request);
      if (typeof login === 'object') place.welcome();
      return login;
    },
  });
  place.leave();
}

// A fault ends the process, and the daemon starts another one: a half-working one would be asked for ever.
await main();
