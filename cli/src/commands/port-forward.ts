/**
 * `squash port-forward`: listens on this machine; each connection is a WebSocket to the daemon, and there one to the sandbox's
 * port. `--reverse` is the other direction (port-reverse.ts).
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { callerServiceName } from '@squash/contract/destination';
import type { Client } from '../client/client.ts';
import { carryBytes } from '../client/tcp.ts';
import type { WebSocketConnection } from '../client/websocket.ts';
import type { Call } from '../command.ts';
import { CliFailure, errorCode, exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';
import { type Offer, offer, parseReverse } from './port-reverse.ts';
import { parsePort, portPath } from './ports.ts';

interface Forward {
  readonly id: string;
  readonly local: number;
  readonly port: number;
}

export async function run(call: Call): Promise<number> {
  const [id = '', ...words] = call.positionals;
  const forwards = words.map((word) => parseForward(id, word));
  const reverses = call.flags.list('reverse').map(parseReverse);
  if (forwards.length + reverses.length === 0)
    throw usageFailure('<[local:]port> or --reverse is missing; try: squash help port-forward');
  const bind = call.flags.text('bind') ?? '127.0.0.1';
  // A sandbox that is not there is told now, not at the first connection.
  await call.client.get(portPath(id, 1).replace(/\/1$/, ''));
  using stack = new DisposableStack();
  const bound: { address: string; local: number; port: number }[] = [];
  for (const forward of forwards) {
    const server = await listen(forward, bind, (socket) => void carry(socket, call.client, forward));
    stack.defer(() => void server.close());
    const { address, port } = server.address() as AddressInfo;
    bound.push({ address, local: port, port: forward.port });
  }
  const offers: Offer[] = [];
  for (const reverse of reverses) offers.push(stack.use(await offer(call.client, id, reverse)));
  if (call.json) printJson([...bound, ...reverses.map((each) => ({ reverse: true, ...each }))]);
  else {
    for (const { address, local, port } of bound) printLine(`${address}:${local} -> ${visible(id)}:${port}`);
    for (const { port, host, local } of reverses)
      printLine(`${visible(id)} ${callerServiceName}:${port} -> ${visible(host)}:${local}`);
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((name) => once(process, name));
  await Promise.race([...signals, ...offers.map(({ ended }) => ended)]);
  return exitCodes.ok;
}

function parseForward(id: string, word: string): Forward {
  const [first = '', second] = word.split(':', 2);
  const port = parsePort(second ?? first);
  return { id, port, local: second === undefined ? port : parsePort(first, true) };
}

async function listen({ local }: Forward, bind: string, take: (socket: Socket) => void): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, take);
  server.listen({ host: bind, port: local });
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new CliFailure(
      'port_taken',
      `can't listen on ${bind}:${local}: ${errorCode(cause) ?? String(cause)}`,
    );
  }
  return server;
}

/** One connection, to its end. What fails is told, and the next one may work. */
async function carry(socket: Socket, client: Client, { id, port }: Forward): Promise<void> {
  let connection: WebSocketConnection | undefined;
  // Also before there is a connection that it ends.
  socket.on('error', () => undefined);
  try {
    connection = await client.webSocket(portPath(id, port, ['tcp']), 'squash.tcp.v1');
    await carryBytes(socket, connection);
  } catch (cause) {
    if (!socket.destroyed) {
      const message = cause instanceof Error ? cause.message : String(cause);
      printNote(`squash: port ${port}: ${visible(message)}`);
    }
    connection?.destroy();
    socket.resetAndDestroy();
  }
}
