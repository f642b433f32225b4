/** A port of this machine that is carried to one of a sandbox: each connection is a WebSocket to the daemon. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { CliFailure, errorCode, usageFailure } from '../failure.ts';
import { printNote, visible } from '../output/print.ts';
import { parsePort, portPath } from '../commands/ports.ts';
import type { Client } from './client.ts';
import { carryBytes } from './tcp.ts';
import type { WebSocketConnection } from './websocket.ts';

export interface ForwardWish {
  readonly local: number;
  readonly port: number;
}

interface Target {
  readonly client: Client;
  readonly id: string;
}

export interface Forward extends Disposable {
  readonly address: string;
  readonly local: number;
  readonly port: number;
}

/** `[LOCAL:]PORT`. @throws usage */
export function parseForward(word: string): ForwardWish {
  const [first = '', second, ...more] = word.split(':');
  if (more.length > 0)
    throw usageFailure(`a port is [LOCAL:]PORT, such as 3000:8000, not "${visible(word)}"`);
  const port = parsePort(second ?? first);
  return { port, local: second === undefined ? port : parsePort(first, true) };
}

/**
 * @param target connections that come before there is a sandbox wait for it
 * @throws port_taken
 */
export async function listenForward(
  { local, port }: ForwardWish,
  bind: string,
  target: Promise<Target>,
): Promise<Forward> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    void carry(socket, target, port);
  });
  server.listen({ host: bind, port: local });
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new CliFailure(
      'port_taken',
      `can't listen on ${bind}:${local}: ${errorCode(cause) ?? String(cause)}`,
    );
  }
  const { address, port: bound } = server.address() as AddressInfo;
  return {
    address,
    local: bound,
    port,
    [Symbol.dispose]: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** One connection, to its end. What fails is told, and the next one may work. */
async function carry(socket: Socket, target: Promise<Target>, port: number): Promise<void> {
  let connection: WebSocketConnection | undefined;
  // Also before there is a connection that it ends.
  socket.on('error', () => undefined);
  try {
    const { client, id } = await target;
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
