/**
 * Takes over a program's connection: ends its TLS with a certificate of the installation's authority, finds out which HTTP it
 * speaks, and serves every request of it through `exchange.ts`.
 *
 * What a newcomer would get wrong: one HTTP server object serves all connections and never listens; connections are
 * given to it by hand, and which sandbox one belongs to is looked up by its stream, never by anything in it.
 */
import { createServer, type Server, ServerResponse } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http2';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import type { Clock } from '@squash/base/clock';
import { FairShare } from '@squash/base/fair-share';
import { byteTurns } from '../flow/byte-turns.ts';
import type { InterceptedConnection, Interceptor } from '../ports.ts';
import { type ExchangeContext, serveExchange } from './exchange.ts';
import { Http1Front } from './front-http1.ts';
import { Http2Front } from './front-http2.ts';
import { http2 } from './http2.ts';
import type { LeafCache } from './leaf-cache.ts';
import { interceptLimits } from './limits.ts';
import { LiveExchange } from './live-exchange.ts';
import type { FrontExchange } from './message.ts';
import { serveUpgrade, type UpgradeRequest, wantedProtocol } from './upgrade.ts';
import { UpstreamOfConnection } from './upstream.ts';
import { http2Settings, rawList } from './upstream-http2.ts';
import type { Protocol, UpstreamRoots } from './upstream-socket.ts';

/** Bytes of the requests under way: their heads, and a fixed price for each. */
const heads = new FairShare(interceptLimits.headBytesMax);

export interface InterceptorOptions {
  readonly leaves: LeafCache;
  /** What servers are verified with: `upstreamRoots()`. */
  readonly roots: UpstreamRoots;
  readonly clock: Clock;
}

export class HttpInterceptor implements Interceptor {
  readonly #options: InterceptorOptions;
  readonly #http1: Server;
  /** By the stream that HTTP is spoken on. */
  readonly #lives = new WeakMap<Duplex, ConnectionLife>();
  #connections = 0;

  constructor(options: InterceptorOptions) {
    this.#options = options;
    this.#http1 = createServer({
      maxHeaderSize: interceptLimits.headerBytesMax,
      insecureHTTPParser: false,
      // The exchange asks for Host itself, so that the refusal is recorded.
      requireHostHeader: false,
      // A long upload is no attack; connections without a request are ended by ConnectionLife.
      requestTimeout: 0,
      headersTimeout: 0,
      keepAliveTimeout: 0,
      shouldUpgradeCallback: (request) => wantedProtocol(request) !== undefined,
    });
    // All of them: the parser's bound is the size. One that is dropped here would be missing in the checks.
    this.#http1.maxHeadersCount = 0;
    // A program that has ended its side waits for its answer; Node does not list this property among its types.
    Object.assign(this.#http1, { httpAllowHalfOpen: true });
    const serve = this.#lives;
    this.#http1.on('request', (request, response) =>
      serve.get(request.socket)?.serve(new Http1Front(request, response)),
    );
    this.#http1.on('checkContinue', (request, response) =>
      serve.get(request.socket)?.serve(new Http1Front(request, response)),
    );
    this.#http1.on('checkExpectation', (request, response) =>
      serve.get(request.socket)?.serve(new Http1Front(request, response)),
    );
    this.#http1.on('connect', (_request, socket) => {
      socket.end(badRequest('CONNECT'));
      serve.get(socket)?.recordMalformed('connect_refused');
    });
    this.#http1.on('upgrade', (request, socket, first) =>
      serve.get(socket)?.upgrade({ request, response: new ServerResponse(request), socket, first }),
    );
    this.#http1.on('clientError', (error, socket) => {
      if (socket.writable && !socket.destroyed)
        socket.end(badRequest(String((error as NodeJS.ErrnoException).code)));
      else socket.destroy();
      if (!socket.destroyed) socket.resume();
      serve.get(socket)?.recordMalformed('malformed_request');
    });
  }

  async intercept(stream: Duplex, connection: InterceptedConnection): Promise<void> {
    // Whatever happens to it is told by `close`.
    stream.on('error', () => {});
    // Relays come over Unix sockets, which know no delay; anything else must not wait for acknowledgements.
    if (stream instanceof Socket) stream.setNoDelay(true);
    this.#connections += 1;
    byteTurns.enter(connection.sandbox);
    try {
      if (stream.destroyed) return;
      if (connection.protocol === 'tls') await this.#serveTls(stream, connection);
      else await this.#serve(stream, connection, await spokenPlainly(stream));
    } finally {
      await closed(stream);
      this.#connections -= 1;
      byteTurns.leave(connection.sandbox);
    }
  }

  async #serveTls(stream: Duplex, connection: InterceptedConnection): Promise<void> {
    const { destination, serverName, record } = connection;
    const { host, address, port } = destination;
    const isFast = this.#connections <= interceptLimits.fastConnectionsMax;
    const options = {
      isServer: true,
      secureContext: this.#options.leaves.contextFor(serverName ?? host ?? address ?? ''),
      ALPNProtocols: ['h2', 'http/1.1'],
      highWaterMark: isFast ? interceptLimits.waitingBytesMax : undefined,
    };
    const socket = new TLSSocket(stream as TLSSocket, options);
    socket.on('error', () => {});
    const isReady = await handshake(socket);
    // The name in the ClientHello that the certificate is for; a second one can't be smuggled past the first look.
    const isSame = (socket.servername || undefined)?.toLowerCase() === serverName;
    if (!isReady || !isSame) {
      // Most often a program that does not trust the authority, or expects a certain certificate.
      const rule = isReady ? 'sni_mismatch' : 'tls_handshake_failed';
      record({ kind: 'connection', host, address, port, verdict: 'blocked', rule });
      socket.destroy();
      stream.destroy();
      return;
    }
    await this.#serve(socket, connection, socket.alpnProtocol === 'h2' ? 'h2' : 'http/1.1');
    stream.destroy();
  }

  async #serve(stream: Duplex, connection: InterceptedConnection, protocol: Protocol): Promise<void> {
    // Its end was already told, and would not be told again.
    if (stream.readableEnded) stream.destroy();
    if (stream.destroyed) return;
    const { roots, clock } = this.#options;
    await using upstream = new UpstreamOfConnection(connection, roots, protocol);
    const context = { connection, upstream, connect: upstream.connectHttp1, clock };
    using life = new ConnectionLife(stream, context, () => upstream.end());
    if (protocol === 'h2') serveHttp2(stream, life);
    else {
      this.#lives.set(stream, life);
      this.#http1.emit('connection', stream);
    }
    await closed(stream);
  }
}

/** One connection's requests, their end with it, and its end when none has come for long. */
class ConnectionLife implements Disposable {
  readonly #stream: Duplex;
  readonly #context: ExchangeContext;
  readonly #live = new Set<LiveExchange>();
  /** Of the requests under way. */
  #headBytes = 0;
  #hasProgramEnded = false;
  readonly #endServer: () => void;
  #idle: NodeJS.Timeout | undefined;

  /** @param endServer tells the server that nothing more comes */
  constructor(stream: Duplex, context: ExchangeContext, endServer: () => void) {
    this.#stream = stream;
    this.#context = context;
    this.#endServer = endServer;
    stream.once('end', () => this.#programEnded());
    context.connection.onReview(() => [...this.#live].filter((live) => live.review()).length > 0);
    this.#wait();
  }

  serve(front: FrontExchange): void {
    this.#begin(front, (live) => serveExchange(live, this.#context));
  }

  upgrade(upgrade: UpgradeRequest): void {
    const front = new Http1Front(upgrade.request, upgrade.response, wantedProtocol(upgrade.request) ?? '');
    this.#begin(front, (live) => serveUpgrade(upgrade, live, this.#context));
  }

  #begin(front: FrontExchange, serve: (live: LiveExchange) => Promise<void>): void {
    const { connection } = this.#context;
    const { sandbox } = connection;
    const bytes = front.head.headers.reduce((sum, text) => sum + text.length, front.head.target.length);
    // HTTP/2 has a bound of its own, which is the same. A program of HTTP/1.1 can send as many ahead as it likes.
    const price = bytes + interceptLimits.exchangeBytes;
    const isTooMuch = this.#live.size > 0 && this.#headBytes + bytes > interceptLimits.aheadBytesMax;
    if (this.#live.size >= interceptLimits.requestsMax || isTooMuch || !heads.take(sandbox, price)) {
      this.recordMalformed('pipeline_limit');
      this.#stream.destroy();
      return;
    }
    this.#headBytes += bytes;
    const give = (): void => {
      this.#headBytes -= bytes;
      heads.give(sandbox, price);
    };
    const live = new LiveExchange(front, connection, () => this.#passEnd());
    void this.#during(live, serve(live).finally(give));
  }

  /** What never became a request. */
  recordMalformed(rule: string): void {
    const { host, address, port } = this.#context.connection.destination;
    this.#context.connection.record({ kind: 'request', host, address, port, verdict: 'denied', rule });
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#idle);
    // What has left HTTP does not hear of it otherwise.
    for (const live of this.#live) live.giveUp();
  }

  /** Never rejects. */
  async #during(live: LiveExchange, work: Promise<void>): Promise<void> {
    clearTimeout(this.#idle);
    this.#live.add(live);
    try {
      await work;
    } catch {
      // Not even a refusal could be said on it.
      this.#stream.destroy();
    }
    this.#live.delete(live);
    this.#passEnd();
    if (this.#live.size === 0 && !this.#stream.destroyed) this.#wait();
  }

  #programEnded(): void {
    this.#hasProgramEnded = true;
    for (const live of this.#live) live.hearEnd();
    // It may be gone as well: nobody can tell before something is written to it.
    if (this.#stream instanceof Socket) {
      this.#stream.setTimeout(interceptLimits.idleMs, () => this.#stream.destroy());
    }
    this.#passEnd();
  }

  /** Behind the last request, as it would come to the server without us: what that means is the server's business. */
  #passEnd(): void {
    const [last, ...more] = this.#live;
    if (this.#hasProgramEnded && last?.isSent === true && more.length === 0) this.#endServer();
  }

  #wait(): void {
    this.#idle = setTimeout(() => this.#stream.destroy(), interceptLimits.idleMs);
    this.#idle.unref();
  }
}

function serveHttp2(stream: Duplex, life: ConnectionLife): void {
  const session = http2().performServerHandshake(stream, {
    settings: http2Settings,
    maxHeaderListPairs: 512,
    maxSendHeaderBlockLength: 2 * interceptLimits.headerBytesMax,
  });
  // The session waits for this event of a TLS stream it has not made itself.
  if (stream instanceof TLSSocket) stream.emit('secureConnect');
  session.setLocalWindowSize(interceptLimits.windowBytes);
  // Told by every stream and by the end of the connection.
  session.on('error', () => {});
  session.on('stream', (each, ...rest: [IncomingHttpHeaders, ...unknown[]]) =>
    life.serve(new Http2Front(each, rawList(rest, rest[0]))),
  );
  session.on('close', () => stream.destroy());
  // HTTP/2 has no half-close of connections: who has ended his side can't take part in it any more.
  stream.once('end', () => session.destroy());
}

/** HTTP/2 without TLS begins with words that no HTTP/1 request begins with. */
async function spokenPlainly(stream: Duplex): Promise<Protocol> {
  const preface = Buffer.from('PRI * HTTP/2.0');
  for (;;) {
    const first = stream.read() as Buffer | null;
    if (first !== null) {
      stream.unshift(first);
      const size = Math.min(first.length, preface.length);
      if (!first.subarray(0, size).equals(preface.subarray(0, size))) return 'http/1.1';
      if (size === preface.length) return 'h2';
    }
    if (stream.readableEnded || stream.destroyed) return 'http/1.1';
    const { promise, resolve } = Promise.withResolvers<void>();
    const settle = (): void => resolve();
    stream.once('readable', settle).once('end', settle).once('close', settle);
    await promise;
    stream.off('readable', settle).off('end', settle).off('close', settle);
  }
}

/** False where it came to nothing. */
async function handshake(socket: TLSSocket): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), interceptLimits.handshakeMs);
  const gone = (): void => resolve(false);
  // A stream that may be half open ends without closing.
  socket
    .once('secure', () => resolve(true))
    .once('end', gone)
    .once('close', gone);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    socket.off('end', gone).off('close', gone);
  }
}

async function closed(stream: Duplex): Promise<void> {
  if (stream.closed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  stream.once('close', () => resolve());
  await promise;
}

function badRequest(what: string): string {
  const text = `Squash: the request can not be read (${what}).\n`;
  return `HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n${text}`;
}
