/**
 * `port.tcp`: one WebSocket is one connection to a port. Each direction is read no faster than the other side takes it, and ends
 * by itself.
 */
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import type { portOperations } from '@squash/contract/operations/ports';
import { type TcpMessage, tcpMessageSchema } from '@squash/contract/ports';
import type { Engine } from '../engine/engine.ts';
import { ClientGoneError, type Message, type MessageSocket } from '../http/message-socket.ts';
import { asAppError } from '../http/problem.ts';
import type { SocketHandler } from '../http/sockets.ts';
import type { StreamParts } from './exec-stream.ts';

const serviceRestart = 1012;

export function forwardingPort(
  { ports }: Pick<Engine, 'ports'>,
  { log, cutting }: StreamParts,
): SocketHandler<(typeof portOperations)['port.tcp']> {
  return ({ params: { id, port } }) => {
    // A sandbox that is not there is told by the handshake's status.
    ports.owner(id);
    return async (socket) => {
      try {
        await using stack = new AsyncDisposableStack();
        const stream = await ports.dial(id, port);
        stack.defer(() => void stream.destroy());
        await carry(socket, stream, { used: () => ports.used(id), cutting });
        await socket.close(1000, '');
      } catch (error) {
        if (error instanceof ClientGoneError) return;
        const failure = asAppError(error);
        if (failure.code === 'internal')
          log.error('request.fault', { operation: 'port.tcp', error: failure.cause });
        await sayGoodbye(socket, failure);
      }
    };
  };
}

interface Carrying {
  readonly used: () => void;
  readonly cutting: AbortSignal;
}

/** Resolves when both sides have ended, or the client is gone. @throws port_unreachable, shutting_down */
async function carry(socket: MessageSocket, stream: Duplex, { used, cutting }: Carrying): Promise<void> {
  const { promise: failed, reject } = Promise.withResolvers<never>();
  const stop = (): void => reject(new AppError('shutting_down', 'The daemon is stopping'));
  const broke = (cause: unknown): void => reject(broken(cause));
  cutting.addEventListener('abort', stop, { once: true });
  if (cutting.aborted) stop();
  stream.on('error', broke);
  try {
    const both = Promise.all([down(stream, socket, used), up(socket, stream, used)]);
    const gone = socket.closed;
    await Promise.race([both, gone, failed]);
  } finally {
    cutting.removeEventListener('abort', stop);
  }
}

async function down(stream: Duplex, socket: MessageSocket, used: () => void): Promise<void> {
  const chunks = stream.iterator({ destroyOnReturn: false });
  for (;;) {
    const result = await chunks.next().catch((cause: unknown) => Promise.reject(broken(cause)));
    if (result.done === true) break;
    used();
    await socket.send(result.value as Buffer);
  }
  await say(socket, { type: 'eof' });
}

function broken(cause: unknown): AppError {
  return new AppError('port_unreachable', 'The connection to the port broke', { cause });
}

async function up(socket: MessageSocket, stream: Duplex, used: () => void): Promise<void> {
  for (;;) {
    const message = await socket.receive();
    if (message === undefined) return;
    used();
    if (message.type === 'text') {
      if (readEnd(message)) {
        stream.end();
        await Promise.race([once(stream, 'finish'), once(stream, 'close')]);
        return;
      }
    } else if (!stream.write(message.data)) {
      await Promise.race([once(stream, 'drain'), once(stream, 'close')]);
    }
  }
}

/** @throws invalid_request */
function readEnd({ text }: Extract<Message, { type: 'text' }>): boolean {
  const parsed = tcpMessageSchema.safeParse(parse(text));
  if (parsed.success && parsed.data.type === 'eof') return true;
  throw new AppError('invalid_request', 'a text message must be {"type":"eof"}');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The schema refuses it.
    return undefined;
  }
}

async function sayGoodbye(socket: MessageSocket, { code, message }: AppError): Promise<void> {
  // A client that has gone meanwhile needs no goodbye.
  await say(socket, { type: 'error', code, message }).catch(() => undefined);
  await socket.close(code === 'shutting_down' ? serviceRestart : 1000, '');
}

async function say(socket: MessageSocket, message: TcpMessage): Promise<void> {
  await socket.send(JSON.stringify(message));
}
