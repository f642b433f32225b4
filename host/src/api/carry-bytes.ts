/**
 * One WebSocket is one TCP connection (`squash.tcp.v1`). Each direction is read no faster than the other side takes it, and ends
 * by itself.
 */
import type { Duplex } from 'node:stream';
import { pause } from '@squash/base/pause';
import type { Log } from '@squash/base/log';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { type TcpMessage, tcpMessageSchema } from '@squash/contract/ports';
import { safeParse } from '@squash/contract/safe-parse';
import { ClientGoneError, type Message, type MessageSocket } from '../http/message-socket.ts';
import { asAppError } from '../http/problem.ts';
import { serviceRestart } from './exec-stream.ts';

export interface Carrying {
  /** Told of each piece. */
  readonly used: () => void;
  readonly cutting: AbortSignal;
  /** What the client is told when the stream breaks. */
  readonly broken: (cause: unknown) => AppError;
}

/** Resolves when both sides have ended. @throws ClientGoneError, shutting_down, invalid_request, what `broken` makes */
export async function carry(socket: MessageSocket, stream: Duplex, carrying: Carrying): Promise<void> {
  const { cutting, broken } = carrying;
  const { promise: failed, reject } = Promise.withResolvers<never>();
  const over = new AbortController();
  const stop = (): void => reject(new AppError('shutting_down', 'The daemon is stopping'));
  cutting.addEventListener('abort', stop, { once: true });
  if (cutting.aborted) stop();
  stream.on('error', (cause) => reject(broken(cause)));
  try {
    const upward = up(socket, stream, carrying);
    const both = Promise.all([down(stream, socket, carrying), upward]);
    await Promise.race([both, left(socket, upward, over.signal), failed]);
  } finally {
    over.abort();
    cutting.removeEventListener('abort', stop);
  }
}

/** The client is gone. What it has said to its end is taken still, within a bounded time. @throws ClientGoneError */
async function left(socket: MessageSocket, upward: Promise<void>, over: AbortSignal): Promise<never> {
  await socket.closed;
  await Promise.race([upward, pause(limits.portRestMs, over)]);
  throw new ClientGoneError();
}

async function down(stream: Duplex, socket: MessageSocket, { used, broken }: Carrying): Promise<void> {
  const chunks = stream.iterator({ destroyOnReturn: false });
  for (;;) {
    const result = await chunks.next().catch((cause: unknown) => Promise.reject(broken(cause)));
    if (result.done === true) break;
    used();
    await socket.send(result.value as Buffer);
  }
  await say(socket, { type: 'eof' });
}

/** @throws ClientGoneError where the client goes without an end */
async function up(socket: MessageSocket, stream: Duplex, { used }: Carrying): Promise<void> {
  for (;;) {
    const message = await socket.receive();
    if (message === undefined) throw new ClientGoneError();
    used();
    if (message.type === 'text') {
      readEnd(message);
      stream.end();
      return await next(stream, 'finish');
    }
    if (!stream.write(message.data)) await next(stream, 'drain');
  }
}

/** Or its close. Leaves no listener: a long upload waits a hundred thousand times. */
async function next(stream: Duplex, event: 'drain' | 'finish'): Promise<void> {
  if (stream.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const go = (): void => resolve();
  stream.once(event, go).once('close', go);
  await promise;
  stream.off(event, go).off('close', go);
}

/** @throws invalid_request */
function readEnd({ text }: Extract<Message, { type: 'text' }>): void {
  const parsed = safeParse(tcpMessageSchema, parse(text));
  if (parsed.success && parsed.data.type === 'eof') return;
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

/** Has the conversation, and tells the client how it ends. Never throws. */
export async function converse(
  socket: MessageSocket,
  { operation, log }: { readonly operation: string; readonly log: Log },
  talk: () => Promise<void>,
): Promise<void> {
  try {
    await talk();
    await socket.close(1000, '');
  } catch (error) {
    if (error instanceof ClientGoneError) return;
    const failure = asAppError(error);
    const { code, message } = failure;
    if (code === 'internal') log.error('request.fault', { operation, error: failure.cause });
    // A client that has gone meanwhile needs no goodbye.
    await say(socket, { type: 'error', code, message }).catch(() => undefined);
    await socket.close(code === 'shutting_down' ? serviceRestart : 1000, '');
  }
}

async function say(socket: MessageSocket, message: TcpMessage): Promise<void> {
  await socket.send(JSON.stringify(message));
}
