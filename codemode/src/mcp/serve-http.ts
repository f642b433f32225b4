/**
 * Codemode as an MCP server over HTTP, for clients on this machine: loopback only, and only for who has the token. A page in a browser is on this
 * machine too: it is kept out by its `Origin`, and by the `Host` it has to send when its own name was made to point here.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server';
import { CodemodeError } from '../errors.ts';
import { mcpServerFactory, type ServeOptions } from './serve.ts';

export interface HttpServeOptions extends ServeOptions {
  /** 0 takes any that is free. */
  readonly port: number;
  readonly token: string;
}

export interface HttpService extends AsyncDisposable {
  /** `http://127.0.0.1:PORT/mcp` */
  readonly url: string;
}

/** The longest program, escaped as JSON, and what stands around it. */
const bodyBytesMax = 2_097_152;
/** Beyond the runs that execute at once some may wait; more is a client in a loop. */
const requestsMax = 64;

/** @throws CodemodeError `unavailable` where the port is taken */
export async function serveHttp(options: HttpServeOptions): Promise<HttpService> {
  const handler = createMcpHandler(mcpServerFactory(options));
  const token = digestOf(options.token);
  let requests = 0;
  const http = createServer((request, response) => {
    const refused = refusal(request, token) ?? (requests >= requestsMax ? 503 : undefined);
    if (refused !== undefined) {
      response.writeHead(refused, {
        connection: 'close',
        ...(refused === 401 && { 'www-authenticate': 'Bearer' }),
      });
      response.end();
      return;
    }
    requests += 1;
    void answer(handler, request, response).finally(() => {
      requests -= 1;
    });
  });
  await new Promise<void>((settle, reject) => {
    const refuse = (cause: NodeJS.ErrnoException): void => {
      const reason = cause.code === 'EADDRINUSE' ? 'another program has it' : cause.message;
      reject(
        new CodemodeError('unavailable', `port ${options.port} can not be served on: ${reason}`, { cause }),
      );
    };
    http.once('error', refuse).listen(options.port, '127.0.0.1', settle);
  });
  const { port } = http.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async [Symbol.asyncDispose]() {
      await handler.close();
      const closed = new Promise((settle) => http.close(settle));
      http.closeAllConnections();
      await closed;
    },
  };
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
  handler: McpHttpHandler,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    const body = await bodyOf(request);
    if (body === undefined) {
      response.writeHead(413, { connection: 'close' }).end();
      return;
    }
    const given = await handler.fetch(asWebRequest(request, body, gone.signal));
    response.writeHead(given.status, Object.fromEntries(given.headers));
    if (given.body === null) response.end();
    else await pipeline(Readable.fromWeb(given.body as Parameters<typeof Readable.fromWeb>[0]), response);
  } catch {
    // The client went, in the middle of its request or of our answer; what ran for it has heard of it through the signal.
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
