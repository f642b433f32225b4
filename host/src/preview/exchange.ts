/**
 * One request to a port, over a connection of its own, and the port's answer.
 *
 * The port is hostile: it may answer garbage, a head without end, nothing at all, or more than the visitor reads. Node's parser
 * has the bounds, nothing is held beyond two streams' buffers, and every wait has an end.
 */
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { answerHeaders } from './headers.ts';
import { IdleWatch } from './idle-watch.ts';

export interface Exchange {
  readonly incoming: IncomingMessage;
  readonly port: number;
  /** Path and query, as the port sees them. */
  readonly target: string;
  /** Flat. */
  readonly headers: readonly string[];
  /** The connection to the port; this exchange ends it. */
  readonly stream: Duplex;
  /** Called for each piece that moves. */
  readonly onBytes: () => void;
  /** Aborted when the daemon stops: tunnels end then, exchanges soon after. */
  readonly stopping: AbortSignal;
}

/** Resolves when it is over, however it ended. @throws port_unreachable where nothing of an answer has been sent */
export async function exchange(wanted: Exchange, outgoing: ServerResponse): Promise<void> {
  const { incoming, stream, stopping } = wanted;
  const sent = send(wanted);
  using watch = new IdleWatch(limits.previewIdleMs, () => stream.destroy(), wanted.onBytes);
  const leave = (): void => void stream.destroy();
  outgoing.once('close', leave);
  // A visitor whose upload nobody reads may have left: that is seen when his connection is read again.
  let cut: NodeJS.Timeout | undefined;
  const stop = (): void => {
    cut = setTimeout(leave, limits.previewStopMs);
  };
  stopping.addEventListener('abort', stop, { once: true });
  try {
    incoming.pipe(sent);
    watch.follow(incoming);
    const answer = await answerTo(sent, wanted.port);
    if (answer.type === 'upgrade') throw noHttp(wanted.port, 'it switches protocols without being asked to');
    const { message } = answer;
    begin(message, outgoing);
    watch.follow(message);
    await pipeline(message, outgoing).catch(() => {
      // Either side broke off in the middle: the pipeline has ended the other, and the visitor sees it cut.
    });
  } finally {
    stopping.removeEventListener('abort', stop);
    clearTimeout(cut);
    outgoing.off('close', leave);
    incoming.unpipe(sent);
    sent.destroy();
    stream.destroy();
    finishUnread(incoming, outgoing);
  }
}

/** What the port did not want of a body is not read without end: the connection ends with the answer. */
function finishUnread(incoming: IncomingMessage, outgoing: ServerResponse): void {
  if (incoming.complete || outgoing.destroyed) return;
  incoming.resume();
  if (outgoing.writableEnded) outgoing.once('close', () => incoming.socket.destroy());
}

export function begin(message: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.sendDate = false;
  if (!outgoing.req.complete) outgoing.shouldKeepAlive = false;
  try {
    // Without its phrase, which may hold what no header may.
    outgoing.writeHead(message.statusCode ?? 502, answerHeaders(message));
  } catch (cause) {
    throw new AppError('port_unreachable', 'The port answers with a head that can not be handed on', {
      cause,
    });
  }
}

/** @throws invalid_request where the target or the method can't be written */
export function send({ incoming, target, headers, stream }: Exchange): ClientRequest {
  try {
    const sent = request({
      createConnection: () => stream,
      method: incoming.method ?? 'GET',
      path: target,
      headers: [...headers],
      setHost: false,
      maxHeaderSize: limits.previewHeaderBytesMax,
      insecureHTTPParser: false,
    });
    // It comes paused, and whoever only listens does not change that.
    return sent.once('socket', () => stream.resume());
  } catch (cause) {
    stream.destroy();
    throw new AppError('invalid_request', 'The request can not be handed on: its target is malformed', {
      cause,
    });
  }
}

export type PortAnswer =
  | { readonly type: 'answer'; readonly message: IncomingMessage }
  | { readonly type: 'upgrade'; readonly message: IncomingMessage; readonly head: Buffer };

/** The head of its answer. @throws port_unreachable */
export async function answerTo(sent: ClientRequest, port: number): Promise<PortAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<PortAnswer>();
  let timer: NodeJS.Timeout | undefined;
  // A slow upload is no slow answer.
  sent.once('finish', () => {
    timer = setTimeout(() => {
      reject(noHttp(port, `it did not answer within ${limits.previewAnswerMs / 1_000} s`));
      sent.destroy();
    }, limits.previewAnswerMs);
  });
  sent.once('response', (message) => resolve({ type: 'answer', message }));
  sent.once('upgrade', (message, _socket, head) => resolve({ type: 'upgrade', message, head }));
  // Kept for good: the connection may break long after the answer began, which its reader sees.
  sent.on('error', (cause: NodeJS.ErrnoException) => reject(noHttp(port, reasonOf(cause), cause)));
  sent.once('close', () => reject(noHttp(port, 'it closed the connection without an answer')));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}

function reasonOf(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'HPE_HEADER_OVERFLOW')
    return `the head of its answer is larger than ${limits.previewHeaderBytesMax} bytes`;
  if (cause.code?.startsWith('HPE_') === true) return 'what it answers is no HTTP/1.1';
  return 'it closed the connection without an answer';
}

function noHttp(port: number, why: string, cause?: unknown): AppError {
  return new AppError('port_unreachable', `Port ${port} gave no answer: ${why}`, { cause });
}
