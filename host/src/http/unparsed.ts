/** The answer to what no request came out of: written by hand, as there is nothing to hang it on. */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorCatalog } from '@squash/contract/errors';

const unparsedStatus: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** Bytes that are no HTTP request, or a head that is too large or too slow. */
export function refuseUnparsed(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const status = unparsedStatus[error.code ?? ''] ?? 400;
  const code = status === 408 ? 'request_timeout' : 'invalid_request';
  const body = JSON.stringify({
    type: 'about:blank',
    title: STATUS_CODES[status],
    status,
    detail: 'The bytes are no HTTP/1.1 request that this server takes',
    code,
    remedy: errorCatalog[code].remedy,
  });
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/problem+json\r\n` +
      `connection: close\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  socket.once('finish', () => socket.destroy());
}
