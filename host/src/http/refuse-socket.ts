/**
 * How a WebSocket is refused: by an ordinary HTTP answer, or, where the client asks for it, by a message that it can read.
 *
 * A browser shows a page nothing of a handshake that was refused. A client that offers the subprotocol `squash.errors.v1` besides the
 * one it wants gets the handshake, one text message that says why, and a close code of 4000 and the HTTP status. Foreign pages
 * get neither: whoever asks with a foreign `Origin` or `Host` is refused by HTTP alone.
 */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, errorCatalog, errorStatus } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { WebSocketServer } from 'ws';
import type { UpgradeRequest } from './message-socket.ts';
import { dialectOf, errorAnswer } from './problem.ts';

export const errorsProtocol = 'squash.errors.v1';

const server = new WebSocketServer({
  noServer: true,
  clientTracking: false,
  maxPayload: 1_024,
  perMessageDeflate: false,
  handleProtocols: () => errorsProtocol,
});
server.on('wsClientError', ({ message }, socket, { url = '' }) =>
  refuseUpgrade({ socket, path: url }, new AppError('invalid_request', message)),
);

export function refuseSocket(request: UpgradeRequest, error: AppError): void {
  const { incoming, socket, head, requestId } = request;
  if (error.code === 'origin_refused' || !offersErrors(incoming.headers['sec-websocket-protocol'])) {
    refuseUpgrade({ socket, path: incoming.url ?? '', requestId }, error);
    return;
  }
  // Whoever does not take it in this time does not get it.
  const timer = setTimeout(() => socket.destroy(), limits.refusalMs);
  socket.once('close', () => clearTimeout(timer));
  server.handleUpgrade(incoming, socket, head, (accepted) => {
    accepted.on('error', () => {
      // It is being closed in any case.
    });
    const { code, message } = error;
    accepted.send(JSON.stringify({ type: 'error', code, message, remedy: errorCatalog[code].remedy }));
    accepted.close(4000 + errorStatus(code, 'native'), code);
  });
}

function offersErrors(protocols: string | undefined): boolean {
  return (protocols ?? '').split(',').some((name) => name.trim() === errorsProtocol);
}

/** By an ordinary answer, written by hand because the socket has left the HTTP parser, or never came to it. */
export function refuseUpgrade(
  {
    socket,
    path,
    requestId,
  }: { readonly socket: Duplex; readonly path: string; readonly requestId?: string },
  error: AppError,
): void {
  const { status, headers, body } = errorAnswer(error, dialectOf(path));
  const lines = Object.entries({
    ...headers,
    ...(requestId === undefined ? {} : { 'squash-request-id': requestId }),
    connection: 'close',
    'content-length': Buffer.byteLength(body),
  });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${body}`);
  socket.once('finish', () => socket.destroy());
}

/** A proxy's method. Node cuts the connection where nobody hears of it. */
export function refuseConnect(socket: Duplex): void {
  socket.on('error', () => socket.destroy());
  refuseUpgrade(
    { socket, path: '' },
    new AppError('invalid_request', 'CONNECT is for proxies: this is none'),
  );
}
