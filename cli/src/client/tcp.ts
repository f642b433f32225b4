/** One TCP connection of this machine over one WebSocket (`squash.tcp.v1`). Whoever stops reading stalls the other end and nothing else. */
import type { Socket } from 'node:net';
import type { TcpMessage } from '@squash/contract/ports';
import { CliFailure } from '../failure.ts';
import type { WebSocketConnection } from './websocket.ts';

/** Resolves when both sides have ended. @throws CliFailure with the daemon's word; both are the caller's to end then */
export async function carryBytes(socket: Socket, connection: WebSocketConnection): Promise<void> {
  const drop = (): void => connection.destroy();
  socket.on('error', drop);
  // Where it has ended in order, the last of what it said may still be on its way.
  socket.once('close', () => {
    if (!socket.readableEnded) drop();
  });
  if (socket.destroyed) return drop();
  await Promise.all([up(socket, connection), down(connection, socket)]);
  connection.close();
}

async function up(socket: Socket, connection: WebSocketConnection): Promise<void> {
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    await connection.sendBinary(chunk as Buffer);
  }
  await connection.sendText(JSON.stringify({ type: 'eof' } satisfies TcpMessage));
}

async function down(connection: WebSocketConnection, socket: Socket): Promise<void> {
  for await (const message of connection.messages()) {
    if (message.type === 'text') {
      const said = JSON.parse(message.text) as TcpMessage;
      if (said.type === 'error') throw new CliFailure(said.code, said.message);
      socket.end();
    } else if (!socket.write(message.data)) await room(socket);
  }
}

/** Or its close. Leaves no listener: a long download waits a hundred thousand times. */
async function room(socket: Socket): Promise<void> {
  if (socket.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const go = (): void => resolve();
  socket.once('drain', go).once('close', go);
  await promise;
  socket.off('drain', go).off('close', go);
}
