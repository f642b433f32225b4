/**
 * `squash port-forward`: listens on this machine; each connection is a WebSocket to the daemon, and there one to the sandbox's
 * port. Whoever stops reading stalls the other end and nothing else.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { TcpMessage } from '@squash/contract/ports';
import type { Client } from '../client/client.ts';
import type { WebSocketConnection } from '../client/websocket.ts';
import type { Call } from '../command.ts';
import { CliFailure, errorCode, exitCodes } from '../failure.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';
import { parsePort, portPath } from './ports.ts';

interface Forward {
  readonly id: string;
  readonly local: number;
  readonly port: number;
}

export async function run(call: Call): Promise<number> {
  const [id = '', ...words] = call.positionals;
  const forwards = words.map((word) => parseForward(id, word));
  const bind = call.flags.text('bind') ?? '127.0.0.1';
  // A sandbox that is not there is told now, not at the first connection.
  await call.client.get(portPath(id, 1).replace(/\/1$/, ''));
  const servers: Server[] = [];
  const bound: { address: string; local: number; port: number }[] = [];
  for (const forward of forwards) {
    const server = await listen(forward, bind, (socket) => void carry(socket, call.client, forward));
    servers.push(server);
    const { address, port } = server.address() as AddressInfo;
    bound.push({ address, local: port, port: forward.port });
  }
  if (call.json) printJson(bound);
  else
    for (const { address, local, port } of bound) printLine(`${address}:${local} -> ${visible(id)}:${port}`);
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM'), once(process, 'SIGHUP')]);
  for (const server of servers) server.close();
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
  socket.on('error', () => connection?.destroy());
  socket.once('close', () => connection?.destroy());
  try {
    connection = await client.webSocket(portPath(id, port, ['tcp']), 'squash.tcp.v1');
    if (socket.destroyed) {
      connection.destroy();
      return;
    }
    await Promise.all([up(socket, connection), down(connection, socket)]);
    connection.close();
  } catch (cause) {
    if (!socket.destroyed) {
      const message = cause instanceof Error ? cause.message : String(cause);
      printNote(`squash: port ${port}: ${visible(message)}`);
    }
    connection?.destroy();
    socket.resetAndDestroy();
  }
}

async function up(socket: Socket, connection: WebSocketConnection): Promise<void> {
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    await connection.sendBinary(chunk as Buffer);
  }
  await connection.sendText(JSON.stringify({ type: 'eof' } satisfies TcpMessage));
}

/** @throws CliFailure with the daemon's word */
async function down(connection: WebSocketConnection, socket: Socket): Promise<void> {
  for await (const message of connection.messages()) {
    if (message.type === 'text') {
      const said = JSON.parse(message.text) as TcpMessage;
      if (said.type === 'error') throw new CliFailure(said.code, said.message);
      socket.end();
    } else if (!socket.write(message.data))
      await Promise.race([once(socket, 'drain'), once(socket, 'close')]);
  }
}
