/**
 * MCP over HTTP for clients of this machine: on loopback only, and only for who has the token. A page in a browser is on this machine, too: it
 * is kept out by its `Origin`, and by the `Host` that it has to send when its own name was made to point here. All of this is decided before
 * a byte of the body is read.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { CodemodeError } from '../errors.ts';

export interface LoopbackPlace {
  /** 127.0.0.1, ::1 or localhost. */
  readonly host: string;
  /** 0 takes any that is free. */
  readonly port: number;
  readonly token: string;
}

export interface LoopbackWork {
  readonly answer: (request: Request) => Promise<Response>;
  /** Ends what still answers, when nobody new is heard any more. */
  readonly end: () => Promise<void>;
  readonly bodyBytesMax: number;
  /** Together: each holds a body while it comes. Streams of answers count as well. */
  readonly requestsMax: number;
}

export interface HttpService extends AsyncDisposable {
  /** `http://127.0.0.1:PORT/mcp` */
  readonly url: string;
}

/** @throws CodemodeError `unavailable` where the address can not be served on */
export async function serveLoopback(
  { host, port, token }: LoopbackPlace,
  work: LoopbackWork,
): Promise<HttpService> {
  if (!['127.0.0.1', '::1', 'localhost'].includes(host))
    throw new CodemodeError(
      'unavailable',
      `"${host}" is not this machine’s own: 127.0.0.1, ::1 and localhost are`,
    );
  const digest = digestOf(token);
  let requests = 0;
  const http = createServer((request, response) => {
    const refused = refusal(request, digest) ?? (requests >= work.requestsMax ? 503 : undefined);
    if (refused !== undefined) return refuse(response, refused);
    requests += 1;
    void answer(work, request, response).finally(() => {
      requests -= 1;
    });
  });
  await new Promise<void>((settle, reject) => {
    const failed = (cause: NodeJS.ErrnoException): void => {
      const reason = cause.code === 'EADDRINUSE' ? 'another program has it' : cause.message;
      reject(new CodemodeError('unavailable', `port ${port} can not be served on: ${reason}`, { cause }));
    };
    http.once('error', failed).listen(port, host, settle);
  });
  const bound = (http.address() as AddressInfo).port;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}/mcp`,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((settle) => http.close(settle));
      await work.end();
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

async function answer(work: LoopbackWork, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    const body = await bodyOf(request, work.bodyBytesMax);
    if (body === undefined) return refuse(response, 413);
    const given = await work.answer(asWebRequest(request, body, gone.signal));
    response.writeHead(given.status, Object.fromEntries(given.headers));
    if (given.body === null) response.end();
    else await pipeline(Readable.fromWeb(given.body as Parameters<typeof Readable.fromWeb>[0]), response);
  } catch {
    // Where the client went, in the middle of its request or of our answer, what ran for it has heard of it. Else the fault is ours.
    if (gone.signal.aborted || response.headersSent) response.destroy();
    else refuse(response, 500);
  }
}

/** Undefined where it is longer than a request can be. */
async function bodyOf(request: IncomingMessage, bytesMax: number): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  // Not destroyed when left early: the answer that says why still has to go out.
  for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > bytesMax) return undefined;
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
