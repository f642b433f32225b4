/**
 * A connection that has changed its protocol (a WebSocket, mostly): bytes both ways between the visitor and the port, each
 * side read no faster than the other takes it.
 */
import { type IncomingMessage, ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { answerTo, begin, type Exchange, send } from './exchange.ts';
import { answerHeaders } from './headers.ts';
import { IdleWatch } from './idle-watch.ts';

export interface Visitor {
  readonly socket: Socket;
  /** What came behind the request. */
  readonly head: Buffer;
}

/** Resolves when it is over. @throws port_unreachable where nothing of an answer has been sent */
export async function tunnel(wanted: Exchange, visitor: Visitor, protocol: string): Promise<void> {
  const { stream, stopping } = wanted;
  const { socket } = visitor;
  const leave = (): void => void stream.destroy();
  socket.once('close', leave);
  stopping.addEventListener('abort', leave, { once: true });
  try {
    const sent = send(wanted);
    sent.end();
    const answer = await answerTo(sent, wanted.port);
    if (answer.type === 'answer') await refuse(wanted.incoming, answer.message, socket);
    else {
      socket.write(switching(answer.message, protocol));
      // Not put back to be read: who sent it may have ended his side meanwhile.
      if (visitor.head.length > 0) stream.write(visitor.head);
      if (answer.head.length > 0) socket.write(answer.head);
      // From here on each side may end before the other.
      socket.off('close', leave);
      await join(socket, stream, wanted.onBytes);
    }
  } finally {
    stopping.removeEventListener('abort', leave);
    stream.destroy();
  }
}

/** Written here because the socket has left the HTTP parser. */
function switching(message: IncomingMessage, protocol: string): string {
  const flat = answerHeaders(message, protocol);
  const lines: string[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const [name = '', value = ''] = flat.slice(i, i + 2);
    try {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    } catch (cause) {
      throw new AppError('port_unreachable', 'The port answers with a head that can not be handed on', {
        cause,
      });
    }
    lines.push(`${name}: ${value}\r\n`);
  }
  return `HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`;
}

/** The port does not switch: its answer is an ordinary one, and the connection's last. */
async function refuse(incoming: IncomingMessage, message: IncomingMessage, socket: Socket): Promise<void> {
  const outgoing = new ServerResponse(incoming);
  outgoing.shouldKeepAlive = false;
  outgoing.assignSocket(socket);
  begin(message, outgoing);
  const { promise, resolve } = Promise.withResolvers<void>();
  outgoing.once('finish', resolve).once('close', resolve);
  message.on('error', () => socket.destroy()).pipe(outgoing);
  await promise;
  outgoing.detachSocket(socket);
  socket.destroySoon();
}

/** Half a connection may end before the other; a broken one ends both, one that is over ends the other when that has all. */
async function join(one: Duplex, other: Duplex, onBytes: () => void): Promise<void> {
  const cut = (): void => {
    one.destroy();
    other.destroy();
  };
  using watch = new IdleWatch(limits.previewIdleMs, cut, onBytes);
  const over = [
    [one, other],
    [other, one],
  ].map(
    ([stream = one, peer = other]) =>
      new Promise<void>((resolve) => {
        stream.on('error', cut).once('close', () => {
          endAfterRest(peer);
          resolve();
        });
      }),
  );
  one.pipe(other);
  other.pipe(one);
  watch.follow(one);
  watch.follow(other);
  await Promise.all(over);
}

/** What was written to it and not yet taken still goes. */
function endAfterRest(stream: Duplex): void {
  if (stream.writableFinished) stream.destroy();
  else stream.once('finish', () => stream.destroy()).end();
}
