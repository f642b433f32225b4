/**
 * HTTP/1.1 over a socket: one connection, one request.
 *
 * Own code because with `node:http`, which the SDK uses, a CLI call takes an eighth longer (6 ms of 47), and because WebSockets
 * (`websocket.ts`) read the same socket. The daemon's answers need status, headers and three kinds of body, no more. The daemon
 * (or what stands on its port) is not trusted with our memory: every length has a limit.
 */
import { connect, type Socket } from 'node:net';
import { CliFailure, errorCode, exitCodes, Failure } from '../failure.ts';
import { type Address, describeAddress, reachableSocketPath } from './address.ts';
import { ByteSource } from './byte-source.ts';

/** Same as Node's own server and client. */
const headerBytesMax = 16_384;
const headersMax = 100;
/** How much of a body one read hands on. */
const chunkBytesMax = 65_536;

export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A stream is sent chunked unless `content-length` is among the headers. */
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly socket: Socket;
  readonly source: ByteSource;
  /** May be read once. The socket is closed at its end. */
  readonly body: () => AsyncGenerator<Buffer, void, void>;
}

export async function sendRequest(address: Address, request: HttpRequest): Promise<HttpResponse> {
  const socket = await openConnection(address);
  const { body } = request;
  const streamed = body !== undefined && !(body instanceof Uint8Array);
  const headers: Record<string, string> = {
    host: address.kind === 'unix' ? 'localhost' : hostHeader(address),
    // A server that is to close does so with its answer. Where that refuses a body still on its way, the close takes
    // the answer with it; so after a body we are the ones that close.
    ...(body === undefined && { connection: 'close' }),
    'user-agent': 'squash-cli',
    ...request.headers,
  };
  const chunked = streamed && headers['content-length'] === undefined;
  if (chunked) headers['transfer-encoding'] = 'chunked';
  if (body instanceof Uint8Array) headers['content-length'] = `${body.length}`;
  const prefix = address.kind === 'tcp' ? address.prefix : '';
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${checkedHeader(value)}\r\n`);
  socket.cork();
  socket.write(`${request.method} ${prefix}${request.path} HTTP/1.1\r\n${lines.join('')}\r\n`);
  if (body instanceof Uint8Array) socket.write(body);
  socket.uncork();
  // The answer is awaited while the body is still on its way: a refusal comes before the body's end.
  const sending = streamed ? sendBody(socket, body, chunked) : undefined;
  const answer = readHead(socket, new ByteSource(socket));
  try {
    const unsent = sending === undefined ? undefined : await Promise.race([sending, answer]);
    if (unsent instanceof Error) return await answer.catch(() => Promise.reject(unsent));
    return await answer;
  } catch (cause) {
    socket.destroy();
    throw cause;
  }
}

async function openConnection(address: Address): Promise<Socket> {
  try {
    const dial = await dialer(address);
    return await new Promise<Socket>((resolve, reject) => {
      const { socket, release } = dial();
      socket.once('error', reject);
      socket.once(address.kind === 'tcp' && address.tls ? 'secureConnect' : 'connect', () => {
        socket.off('error', reject);
        // Every later error surfaces where the socket is read or written.
        socket.on('error', () => {});
        resolve(socket);
      });
      socket.once('close', release);
    });
  } catch (cause) {
    throw unreachable(address, cause);
  }
}

interface Dialled {
  readonly socket: Socket;
  readonly release: () => void;
}

async function dialer(address: Address): Promise<() => Dialled> {
  if (address.kind === 'unix') {
    const { path, release } = reachableSocketPath(address.path);
    return () => ({ socket: connect(path), release });
  }
  const { host, port } = address;
  if (!address.tls) return () => ({ socket: connect({ host, port, noDelay: true }), release: () => {} });
  const tls = await import('node:tls');
  const servername = /^[\d.:]+$/.test(host) ? '' : host;
  return () => ({ socket: tls.connect({ host, port, servername }), release: () => {} });
}

function unreachable(address: Address, cause: unknown): CliFailure {
  const where = describeAddress(address);
  const code = errorCode(cause);
  const reason =
    code === 'EACCES' || code === 'EPERM'
      ? 'this user may not use the socket'
      : code === 'ENOENT' || code === 'ECONNREFUSED'
        ? 'no daemon listens there; start one with: squash serve'
        : code !== undefined && /^(EPROTO$|ERR_SSL_)/.test(code)
          ? 'what listens there speaks no TLS that we can; without TLS the address begins with http://'
          : cause instanceof Error
            ? cause.message
            : String(cause);
  return new CliFailure(
    'unreachable',
    `can't reach the daemon at ${where}: ${reason}`,
    exitCodes.unreachable,
  );
}

function hostHeader(address: Address & { kind: 'tcp' }): string {
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return address.port === (address.tls ? 443 : 80) ? host : `${host}:${address.port}`;
}

function checkedHeader(value: string): string {
  // A line break in a token would let its bearer write headers of their own.
  if (/[\r\n\0]/.test(value))
    throw new CliFailure('usage', 'a header value holds a line break', exitCodes.usage);
  return value;
}

/** Resolves with the error instead of rejecting: the answer explains the failure better, if there is one. */
async function sendBody(
  socket: Socket,
  body: AsyncIterable<Uint8Array>,
  chunked: boolean,
): Promise<Error | undefined> {
  let isSending = false;
  try {
    for await (const part of body) {
      if (part.length === 0) continue;
      isSending = true;
      if (chunked) socket.write(`${part.length.toString(16)}\r\n`);
      await writeAll(socket, part);
      if (chunked) socket.write('\r\n');
      isSending = false;
    }
    if (chunked) socket.write('0\r\n\r\n');
    return undefined;
  } catch (cause) {
    // What we were to send is not to be had: nobody else ends this, and what came is not whole.
    if (!isSending) socket.destroy();
    return cause instanceof Error ? cause : new Failure('no_error', String(cause));
  }
}

/** Resolves when the socket took it. */
export function writeAll(socket: Socket, data: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(data, (error) => (error ? reject(error) : resolve()));
  });
}

async function readHead(socket: Socket, source: ByteSource): Promise<HttpResponse> {
  let status = 0;
  let headers = new Map<string, string>();
  // 1xx answers other than the switch of protocols only announce the real one.
  do {
    const line = await source.line(headerBytesMax);
    const match = /^HTTP\/1\.[01] (\d{3})/.exec(line);
    if (match === null)
      throw new CliFailure('unreachable', 'what answers there speaks no HTTP', exitCodes.unreachable);
    status = Number(match[1]);
    headers = await readHeaders(source);
  } while (status >= 100 && status < 200 && status !== 101);
  return { status, headers, socket, source, body: () => readBody({ status, headers, socket, source }) };
}

async function readHeaders(source: ByteSource): Promise<Map<string, string>> {
  const headers = new Map<string, string>();
  for (let count = 0; count < headersMax; count += 1) {
    const line = await source.line(headerBytesMax);
    if (line === '') return headers;
    const colon = line.indexOf(':');
    if (colon > 0) headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  throw new Failure('too_long', 'the daemon’s answer has too many headers');
}

type BodyParts = Pick<HttpResponse, 'status' | 'headers' | 'socket' | 'source'>;

async function* readBody({ status, headers, socket, source }: BodyParts): AsyncGenerator<Buffer, void, void> {
  try {
    if (status === 204 || status === 304) return;
    if (headers.get('transfer-encoding')?.toLowerCase().endsWith('chunked')) {
      for (;;) {
        const size = Number.parseInt(await source.line(1024), 16);
        if (!(size >= 0)) throw new Failure('malformed', 'the daemon’s answer has a broken chunk');
        if (size === 0) return;
        yield* readCounted(source, size);
        await source.line(2);
      }
    }
    const length = headers.get('content-length');
    if (length !== undefined) {
      yield* readCounted(source, Number(length));
      return;
    }
    for (;;) {
      const part = await source.chunk(chunkBytesMax);
      if (part === undefined) return;
      yield part;
    }
  } finally {
    socket.destroy();
  }
}

async function* readCounted(source: ByteSource, bytes: number): AsyncGenerator<Buffer, void, void> {
  let left = bytes;
  while (left > 0) {
    const part = await source.chunk(Math.min(left, chunkBytesMax));
    if (part === undefined)
      throw new Failure('hung_up', 'the daemon closed the connection in the middle of an answer');
    left -= part.length;
    yield part;
  }
}
