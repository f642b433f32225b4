/**
 * The server over HTTP, for clients of this machine: on loopback only, and only for who has the token. A page in a browser is on this machine,
 * too: it is kept out by its `Origin`, and by the `Host` that it has to send when its own name was made to point here.
 *
 * Who may speak is decided here, before a byte of the body is read; `http-sessions.ts` has the protocol.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { HttpSessions } from './http-sessions.ts';
import type { McpOptions } from './options.ts';
import { ToolError } from './tool-error.ts';

export interface HttpOptions {
  /** An address of loopback: 127.0.0.1, ::1 or localhost. */
  readonly host: string;
  /** 0 takes any that is free. */
  readonly port: number;
  readonly token: string;
}

export interface HttpService extends AsyncDisposable {
  /** `http://127.0.0.1:PORT/mcp` */
  readonly url: string;
}

/** A file of 8 MiB, escaped as JSON by whoever escapes much. */
const bodyBytesMax = 16_777_216;
/** Together: each holds a body while it comes. Streams of answers count as well. */
const requestsMax = 96;
const loopback = ['127.0.0.1', '::1', 'localhost'];

/** @throws ToolError `listen_failed` */
export async function serveHttp(mcp: McpOptions, { host, port, token }: HttpOptions): Promise<HttpService> {
  if (!loopback.includes(host))
    throw new ToolError(
      'listen_failed',
      `"${host}" is not this machine’s own address`,
      `One of ${loopback.join(', ')} is`,
    );
  const sessions = new HttpSessions(mcp);
  const digest = digestOf(token);
  let requests = 0;
  const http = createServer((request, response) => {
    const refused = refusal(request, digest) ?? (requests >= requestsMax ? 503 : undefined);
    if (refused !== undefined) return refuse(response, refused);
    requests += 1;
    void answer(sessions, request, response).finally(() => {
      requests -= 1;
    });
  });
  await new Promise<void>((settle, reject) => {
    const failed = (cause: NodeJS.ErrnoException): void => {
      const reason = cause.code === 'EADDRINUSE' ? 'another program has it' : cause.message;
      reject(new ToolError('listen_failed', `port ${port} can not be served on: ${reason}`));
    };
    http.once('error', failed).listen(port, host, settle);
  });
  const bound = (http.address() as AddressInfo).port;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}/mcp`,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((settle) => http.close(settle));
      await sessions[Symbol.asyncDispose]();
      http.closeAllConnections();
      await closed;
    },
  };
}

function refuse(response: ServerResponse, status: number): void {
  response.writeHead(status, {
    connection: 'close',
    ...(status === 401 && { 'www-authenticate': 'Bearer' }),
  });
  response.end();
}

/** @returns the status to refuse with */
function refusal(request: IncomingMessage, token: Buffer): number | undefined {
  const { host = '', origin, authorization = '' } = request.headers;
  if (!isOurs(`http://${host}`) || (origin !== undefined && !isOurs(origin))) return 403;
  // The scheme is written in any case.
  const given = /^bearer +(.*)$/i.exec(authorization)?.[1] ?? '';
  if (!timingSafeEqual(digestOf(given), token)) return 401;
  return request.url === '/mcp' ? undefined : 404;
}

function isOurs(origin: string): boolean {
  return /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?$/.test(origin);
}

/** Of one length, whatever was sent. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

async function answer(
  sessions: HttpSessions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    const body = await bodyOf(request);
    if (body === undefined) return refuse(response, 413);
    const given = await sessions.answer(asWebRequest(request, body, gone.signal));
    response.writeHead(given.status, Object.fromEntries(given.headers));
    if (given.body === null) response.end();
    else await pipeline(Readable.fromWeb(given.body as Parameters<typeof Readable.fromWeb>[0]), response);
  } catch {
    // The client went, in the middle of its request or of our answer; what ran for it hears of it from its session.
    response.destroy();
  }
}

/** Undefined where it is longer than a request can be. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  // Not destroyed when left early: the answer that says why still has to go out.
  for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > bodyBytesMax) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function asWebRequest(request: IncomingMessage, body: Buffer, signal: AbortSignal): Request {
  const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [
    name,
    String(value),
  ]);
  return new Request(`http://127.0.0.1${request.url}`, {
    method: request.method ?? 'GET',
    headers,
    signal,
    ...(body.length > 0 && { body }),
  });
}
