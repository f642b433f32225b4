/**
 * Owns the listening sockets: TCP and the Unix socket, the same requests on both. Refuses at the gate, hands the
 * rest on, and ends in order: stop accepting, let requests finish, cut what is left.
 */
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { AppError, errorCatalog } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { Log } from '@squash/base/log';
import { anybody, type Caller } from './caller.ts';
import type { Peer } from './connection-owner.ts';
import type { HttpCounters } from './counters.ts';
import type { Gate } from './gate.ts';
import { listenFailure } from './listen.ts';
import type { UpgradeRequest } from './message-socket.ts';
import { Newcomers } from './newcomers.ts';
import { dialectOf, errorAnswer } from './problem.ts';
import { listenOnSocket } from './socket-path.ts';

export type Transport = 'tcp' | 'unix';

export interface HttpServerOptions {
  readonly gate: Gate;
  /** Whose a connection over TCP is; called when it is accepted. */
  readonly peerOf: (socket: Socket) => Peer;
  readonly fetch: (request: Request, bindings: Bindings) => Promise<Response> | Response;
  /** Takes over a request to upgrade that has passed the gate. Resolves when the connection is over. */
  readonly upgrade: (request: UpgradeRequest, caller: Caller) => Promise<void>;
  readonly counters: HttpCounters;
  readonly log: Log;
}

export type Bindings = HttpBindings & { readonly caller: Caller };

export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #servers: Server[] = [];
  readonly #resources = new AsyncDisposableStack();
  readonly #upgraded = new Set<Duplex>();
  readonly #answering = new Set<ServerResponse>();
  readonly #peers = new WeakMap<Socket, Peer>();
  /** Of requests that have passed the gate. */
  readonly #callers = new WeakMap<IncomingMessage, Caller>();
  #isDraining = false;
  #active = 0;
  #idle: (() => void) | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: HttpServerOptions) {
    this.#options = options;
  }

  /** @returns the address with the port that the kernel chose, where 0 was asked for */
  async listenTcp(host: string, port: number): Promise<{ readonly host: string; readonly port: number }> {
    const server = this.#create('tcp');
    // Once for all requests of a connection: its owner does not change, and the kernel is asked at once or in vain.
    server.on('connection', (socket) => this.#peers.set(socket, this.#options.peerOf(socket)));
    server.maxConnections = limits.connectionsMax;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject).once('listening', resolve);
    server.listen({ host, port });
    try {
      await promise;
    } catch (error) {
      throw listenFailure(error, host, port);
    }
    server.off('error', reject);
    const bound = server.address() as AddressInfo;
    return { host: bound.address, port: bound.port };
  }

  async listenUnix(path: string): Promise<void> {
    const server = this.#create('unix');
    server.maxConnections = limits.connectionsMax;
    this.#resources.use(await listenOnSocket(server, path));
  }

  /**
   * Stops accepting at once, waits for requests in progress until `signal` aborts, then cuts their connections.
   * Idempotent: later calls wait for the same end.
   */
  close(signal: AbortSignal): Promise<void> {
    this.#closed ??= this.#close(signal);
    return this.#closed;
  }

  async #close(signal: AbortSignal): Promise<void> {
    this.#isDraining = true;
    // A client that is told so does not send its next request into a connection that is about to end.
    for (const outgoing of this.#answering) outgoing.shouldKeepAlive = false;
    const closing = this.#servers.map(
      (server) => new Promise<void>((resolve) => void server.close(() => resolve())),
    );
    if (this.#active > 0 && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#idle = resolve;
      signal.addEventListener('abort', () => resolve(), { once: true });
      await promise;
    }
    for (const server of this.#servers) server.closeAllConnections();
    for (const socket of this.#upgraded) socket.destroy();
    await Promise.all(closing);
    await this.#resources.disposeAsync();
  }

  #create(transport: Transport): Server {
    const server = createServer({
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersMs,
      // A module's upload or an hour's exec is a legal request: bodies have deadlines of their own.
      requestTimeout: 0,
      keepAliveTimeout: limits.keepAliveMs,
      // How often Node looks at the deadlines above.
      connectionsCheckingInterval: 2_000,
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
      noDelay: true,
      // curl --http2 asks every server to upgrade to h2c; only WebSockets are taken out of the usual path.
      shouldUpgradeCallback: (incoming) => incoming.headers.upgrade?.toLowerCase() === 'websocket',
    });
    const newcomers = new Newcomers(this.#options);
    greet(server, newcomers);
    const { fetch } = this.#options;
    const answer = (request: Request, { incoming, outgoing }: HttpBindings) =>
      fetch(request, { incoming, outgoing, caller: this.#callers.get(incoming) ?? anybody });
    const listener = getRequestListener((request, bindings) => answer(request, bindings as HttpBindings), {
      hostname: 'localhost',
      // Answers of Hono's own kind: one of Node's is read as a stream again, which took an eighth of a burst's time here.
      overrideGlobalObjects: true,
      errorHandler: (error) => this.#failure(error),
    });
    const serve = (incoming: IncomingMessage, outgoing: ServerResponse, expects: boolean): void => {
      this.#begin();
      this.#answering.add(outgoing);
      outgoing.once('close', () => {
        this.#answering.delete(outgoing);
        this.#end();
      });
      if (this.#isDraining) outgoing.shouldKeepAlive = false;
      const refusal = this.#refusal(incoming, transport);
      if (refusal !== undefined) {
        this.#refuse(incoming, outgoing, refusal);
        return;
      }
      this.#welcome(incoming, newcomers);
      if (expects) outgoing.writeContinue();
      void listener(incoming, outgoing);
    };
    server.on('request', (incoming: IncomingMessage, outgoing: ServerResponse) =>
      serve(incoming, outgoing, false),
    );
    server.on('checkContinue', (incoming: IncomingMessage, outgoing: ServerResponse) =>
      serve(incoming, outgoing, true),
    );
    server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#upgrade({ incoming, socket, head }, transport, newcomers),
    );
    server.on('clientError', (error, socket) => this.#unparsed(error, socket));
    this.#servers.push(server);
    return server;
  }

  /** Garbage behind a whole request does not take that request's answer away: it is the connection's last. */
  #unparsed(error: NodeJS.ErrnoException, socket: Duplex): void {
    const [last] = [...this.#answering].filter(
      ({ req, writableEnded }) => req.socket === socket && !writableEnded,
    );
    if (last?.req.complete !== true) {
      refuseUnparsed(error, socket);
      return;
    }
    last.shouldKeepAlive = false;
    last.once('close', () => socket.destroy());
  }

  #begin(): void {
    this.#active += 1;
    this.#options.counters.active += 1;
  }

  #end(): void {
    this.#active -= 1;
    this.#options.counters.active -= 1;
    if (this.#active === 0) this.#idle?.();
  }

  #refusal(incoming: IncomingMessage, transport: Transport): AppError | undefined {
    const target = incoming.url ?? '';
    if (!target.startsWith('/')) {
      return new AppError('invalid_request', 'the request target must be a path');
    }
    const [path = ''] = target.split('?', 1);
    if (dotSegment.test(path)) {
      return new AppError('invalid_request', 'the path has a segment "." or ".."');
    }
    // Node takes the first of several; a proxy before us may have gone by another.
    if ((incoming.headersDistinct['host']?.length ?? 0) > 1) {
      return new AppError('invalid_request', 'the request names more than one Host');
    }
    const peer = this.#peers.get(incoming.socket) ?? 'unknown';
    const caller = this.#options.gate.check({ path, headers: incoming.headers, transport, peer });
    if (caller instanceof AppError) return caller;
    this.#callers.set(incoming, caller);
    return this.#isDraining
      ? new AppError('shutting_down', 'The daemon is stopping: try again later')
      : undefined;
  }

  /** The gate let its request pass. An address that is open to all shows nothing of who asks. */
  #welcome(incoming: IncomingMessage, newcomers: Newcomers): void {
    const [path = ''] = (incoming.url ?? '').split('?', 1);
    if (!this.#options.gate.isForAll(path)) newcomers.pass(incoming.socket);
  }

  #refuse(incoming: IncomingMessage, outgoing: ServerResponse, error: AppError): void {
    const { status, headers, body } = errorAnswer(error, dialectOf(incoming.url ?? ''));
    this.#options.counters.record('none', status, 0);
    // What the refused client still sends is not read: the connection ends with the answer.
    outgoing.writeHead(status, {
      ...headers,
      connection: 'close',
      'content-length': Buffer.byteLength(body),
    });
    outgoing.end(body);
    incoming.resume();
  }

  #upgrade(
    request: { incoming: IncomingMessage; socket: Duplex; head: Buffer },
    transport: Transport,
    newcomers: Newcomers,
  ): void {
    const { incoming, socket, head } = request;
    socket.on('error', () => {
      // A client that resets its connection is an end like any other: 'close' follows.
    });
    const refusal = this.#refusal(incoming, transport);
    if (refusal !== undefined) {
      refuseUpgrade(socket, refusal, incoming.url ?? '');
      return;
    }
    this.#welcome(incoming, newcomers);
    this.#begin();
    this.#upgraded.add(socket);
    const finish = (): void => {
      this.#upgraded.delete(socket);
      this.#end();
    };
    const caller = this.#callers.get(incoming) ?? anybody;
    this.#options.upgrade({ incoming, socket, head }, caller).then(finish, (error: unknown) => {
      this.#options.log.error('upgrade.fault', { error });
      socket.destroy();
      finish();
    });
  }

  /** The request could not even be turned into a Request: its target or Host is no URL. */
  #failure(error: unknown): Response {
    const isMalformed = error instanceof Error && error.name === 'RequestError';
    if (!isMalformed) this.#options.log.error('request.fault', { error });
    const { status, headers, body } = errorAnswer(
      isMalformed
        ? new AppError('invalid_request', 'the request target or the Host is malformed')
        : new AppError('internal', 'A fault in Squash itself; the daemon’s log has the details'),
      'native',
    );
    return new Response(body, { status, headers });
  }
}

/** Too many connections are refused before anything is parsed. Takes the place of the listener that parses. */
function greet(server: Server, newcomers: Newcomers): void {
  const parsers = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    const refused = newcomers.take(socket);
    if (refused === undefined) {
      for (const parse of parsers) parse.call(server, socket);
      return;
    }
    socket.on('error', () => {
      // It is being closed in any case.
    });
    refuseUpgrade(socket, refused, '/v1');
  });
}

/**
 * URL parsers resolve these, encoded ones too: a client that puts ".." where a job's number belongs would reach
 * the sandbox above it.
 */
const dotSegment = /(^|[/\\])(\.|%2e){1,2}([/\\#]|$)/i;

/** An upgrade is refused by an ordinary answer, written by hand because the socket has left the HTTP parser. */
export function refuseUpgrade(socket: Duplex, error: AppError, path: string): void {
  const { status, headers, body } = errorAnswer(error, dialectOf(path));
  const lines = Object.entries({
    ...headers,
    connection: 'close',
    'content-length': Buffer.byteLength(body),
  });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${body}`);
  socket.once('finish', () => socket.destroy());
}

const unparsedStatus: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** Bytes that are no HTTP request, or a head that is too large or too slow. */
function refuseUnparsed(error: NodeJS.ErrnoException, socket: Duplex): void {
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
