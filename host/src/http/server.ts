/**
 * Owns the listening sockets: TCP and the Unix socket, the same requests on both. Refuses at the gate, hands the
 * rest on, and ends in order: stop accepting, let requests finish, cut what is left.
 */
import { randomUUID } from 'node:crypto';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions as PlainOptions,
  type ServerResponse,
} from 'node:http';
import {
  createServer as createSecureServer,
  type Server as SecureServer,
  type ServerOptions,
} from 'node:https';
import { chmod } from 'node:fs/promises';
import { type AddressInfo, isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { Log } from '@squash/base/log';
import { type Answer, sendAnswer } from './answer.ts';
import { type Asked, type Audit, auditLine } from './audit.ts';
import { anybody, type Caller } from './caller.ts';
import type { Peer } from './connection-owner.ts';
import type { HttpCounters } from './counters.ts';
import type { Gate, RequestHead } from './gate.ts';
import { KeyWatch } from './key-watch.ts';
import { listenFailure } from './listen.ts';
import { malformed } from './malformed.ts';
import type { UpgradeRequest } from './message-socket.ts';
import { misplacedToken } from './misplaced-token.ts';
import { Newcomers } from './newcomers.ts';
import { dialectOf, errorAnswer } from './problem.ts';
import type { OtherHosts, Sender, Transport } from './other-hosts.ts';
import { refuseConnect, refuseSocket, refuseUpgrade } from './refuse-socket.ts';
import { listenOnSocket } from './socket-path.ts';
import { refuseUnparsed } from './unparsed.ts';
import { ticketOf } from './tickets.ts';

interface Admitted {
  readonly sender: Sender;
  /** To be called when his request is over. */
  readonly release: () => void;
}

export interface HttpServerOptions {
  readonly gate: Gate;
  /** Whose a connection over TCP is; called when it is accepted. */
  readonly peerOf: (socket: Socket) => Peer;
  /** The client's user, where `peerOf` has found it out. */
  readonly uidOf: (socket: Socket) => number | undefined;
  readonly answer: (exchange: Exchange) => Promise<Answer>;
  /** Takes over a request to upgrade that has passed the gate. Resolves when the connection is over. */
  readonly upgrade: (request: UpgradeRequest, passed: Passed) => Promise<void>;
  readonly audit: Audit;
  /** Whether a key that was let in holds still. */
  readonly holdsKey: (key: string) => boolean;
  readonly others: OtherHosts;
  readonly counters: HttpCounters;
  readonly log: Log;
}

/** A request that the gate has let in. */
export interface Passed {
  readonly caller: Caller;
  readonly asked: Asked;
}

export interface Bound {
  readonly host: string;
  readonly port: number;
}

export interface Exchange extends Passed {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #servers: Server[] = [];
  readonly #resources = new AsyncDisposableStack();
  readonly #upgraded = new Set<Duplex>();
  readonly #answering = new Set<ServerResponse>();
  /** Of a client that sends requests without waiting for answers. */
  readonly #unanswered = new WeakMap<Socket, number>();
  /** The last answer of a connection. */
  readonly #latest = new WeakMap<Socket, ServerResponse>();
  readonly #peers = new WeakMap<Socket, { readonly peer: Peer; readonly told: Asked['peer'] }>();
  readonly #gateways = new WeakSet<Socket>();
  readonly #passed = new WeakMap<IncomingMessage, Passed>();
  readonly #keyWatch: KeyWatch;
  #isDraining = false;
  #active = 0;
  #idle: (() => void) | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    this.#keyWatch = new KeyWatch(options.holdsKey);
  }

  /** @returns the address with the port that the kernel chose, where 0 was asked for */
  async listenTcp(host: string, port: number): Promise<Bound> {
    const server = this.#create('tcp');
    // Once for all requests of a connection: its owner does not change, and the kernel is asked at once or in vain.
    server.on('connection', (socket) => {
      const peer = this.#options.peerOf(socket);
      const told = { address: socket.remoteAddress ?? 'gone', uid: this.#options.uidOf(socket) ?? null };
      this.#peers.set(socket, { peer, told });
    });
    server.maxConnections = limits.connectionsMax;
    return await listening(server, host, port);
  }

  /** The API is not served there. @param pair PEM. @returns as `listenTcp`, with what exchanges the certificate */
  async listenTls(
    host: string,
    port: number,
    pair: { readonly cert: string; readonly key: string },
  ): Promise<Bound & { readonly renew: (pair: { readonly cert: string; readonly key: string }) => void }> {
    const server = this.#create('tls', {
      ...pair,
      ALPNProtocols: ['http/1.1'],
      handshakeTimeout: limits.headersMs,
    });
    // Before the handshake nobody knows whom a connection visits.
    server.maxConnections = limits.previewConnectionsMax;
    const bound = await listening(server, host, port);
    return { ...bound, renew: (renewed) => (server as SecureServer).setSecureContext(renewed) };
  }

  async listenUnix(path: string): Promise<void> {
    const server = this.#create('unix');
    server.maxConnections = limits.connectionsMax;
    this.#resources.use(await listenOnSocket(server, path));
  }

  /** For the gateway of SSH, whatever id it has: its directory says who gets there. */
  async listenGateway(path: string): Promise<void> {
    const server = this.#create('ssh');
    server.on('connection', (socket) => this.#gateways.add(socket));
    server.maxConnections = limits.connectionsMax;
    this.#resources.use(await listenOnSocket(server, path));
    await chmod(path, 0o666);
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

  #create(transport: Transport, secured?: ServerOptions): Server {
    const { others } = this.#options;
    const options: PlainOptions = {
      maxHeaderSize: limits.headerBytesMax,
      // `malformed` does, in our words.
      requireHostHeader: false,
      headersTimeout: limits.headersMs,
      // A module's upload or an hour's exec is a legal request: bodies have deadlines of their own.
      requestTimeout: 0,
      keepAliveTimeout: limits.keepAliveMs,
      // How often Node looks at the deadlines above.
      connectionsCheckingInterval: 2_000,
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
      noDelay: true,
      // curl --http2 asks every server to upgrade to h2c; only WebSockets, which begin with a GET, are taken out of the usual path.
      shouldUpgradeCallback: (incoming) =>
        // Else it would be answered before those that it follows, and their answers would stand among its messages.
        (this.#unanswered.get(incoming.socket) ?? 0) === 0 &&
        (others.has(incoming.headers.host)
          ? others.takesUpgrade(incoming)
          : incoming.method === 'GET' && incoming.headers.upgrade?.toLowerCase() === 'websocket'),
    };
    const server: Server =
      secured === undefined ? createServer(options) : createSecureServer({ ...options, ...secured });
    const newcomers = new Newcomers(this.#options);
    greet(server, newcomers, secured === undefined ? 'connection' : 'secureConnection');
    const serve = (incoming: IncomingMessage, outgoing: ServerResponse, expects: boolean): void => {
      this.#begin();
      this.#answering.add(outgoing);
      outgoing.once('close', () => {
        this.#answering.delete(outgoing);
        this.#end();
      });
      if (this.#isFlooding(incoming.socket, outgoing)) return;
      if (this.#isDraining) outgoing.shouldKeepAlive = false;
      if (others.has(incoming.headers.host)) {
        const admitted = this.#sender(incoming, transport, newcomers);
        this.#serveOther({ incoming, outgoing, expectsContinue: expects }, admitted);
        return;
      }
      const asked = this.#asked(incoming);
      outgoing.setHeader('squash-request-id', asked.requestId);
      const refusal = this.#refusal(incoming, transport, asked);
      if (refusal !== undefined) {
        this.#refuse(incoming, outgoing, refusal);
        return;
      }
      this.#welcome(incoming, newcomers);
      const forget = this.#keyWatch.add(this.#passedOf(incoming).caller, incoming.socket);
      if (forget !== undefined) outgoing.once('close', forget);
      if (expects) outgoing.writeContinue();
      const before = this.#latest.get(incoming.socket);
      this.#latest.set(incoming.socket, outgoing);
      void this.#answer(incoming, outgoing, before);
    };
    // An expectation that nobody knows is refused as anything else is.
    for (const event of ['request', 'checkExpectation'])
      server.on(event, (incoming: IncomingMessage, outgoing: ServerResponse) =>
        serve(incoming, outgoing, false),
      );
    server.on('checkContinue', (incoming: IncomingMessage, outgoing: ServerResponse) =>
      serve(incoming, outgoing, true),
    );
    server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#upgrade({ incoming, socket, head }, transport, newcomers),
    );
    server.on('connect', (_incoming: IncomingMessage, socket: Duplex) => refuseConnect(socket));
    server.on('clientError', (error, socket) => this.#unparsed(error, socket));
    this.#servers.push(server);
    return server;
  }

  /** Whoever sends more without waiting for answers is no client that anybody uses: he is cut off. */
  #isFlooding(socket: Socket, outgoing: ServerResponse): boolean {
    const unanswered = (this.#unanswered.get(socket) ?? 0) + 1;
    this.#unanswered.set(socket, unanswered);
    outgoing.once('close', () => this.#unanswered.set(socket, (this.#unanswered.get(socket) ?? 1) - 1));
    if (unanswered <= limits.unansweredMax) return false;
    socket.destroy();
    return true;
  }

  /** Garbage behind whole requests does not take their answers away: the last one's is the connection's last. */
  #unparsed(error: NodeJS.ErrnoException, socket: Duplex): void {
    const open = [...this.#answering].filter(
      ({ req, writableEnded }) => req.socket === socket && !writableEnded,
    );
    const last = open.findLast(({ req }) => req.complete);
    if (last !== undefined) {
      last.shouldKeepAlive = false;
      last.once('close', () => socket.destroy());
    } else if (open.some(({ headersSent }) => headersSent)) {
      // Words of ours would stand in the middle of that answer's body.
      socket.destroy();
    } else refuseUnparsed(error, socket);
  }

  #begin(): void {
    this.#active += 1;
    this.#options.counters.active += 1;
    this.#options.counters.begun += 1;
  }

  #end(): void {
    this.#active -= 1;
    this.#options.counters.active -= 1;
    if (this.#active === 0) this.#idle?.();
  }

  #asked({ socket, headers }: IncomingMessage): Asked {
    // The gateway's word: it alone sees its clients.
    const told = this.#gateways.has(socket) ? String(headers['squash-ssh-peer']) : undefined;
    if (told !== undefined)
      return { requestId: randomUUID(), peer: { address: isIP(told) === 0 ? 'ssh' : told, uid: null } };
    const peer = this.#peers.get(socket)?.told ?? { address: 'unix', uid: null };
    return { requestId: randomUUID(), peer };
  }

  #passedOf(incoming: IncomingMessage): Passed {
    return this.#passed.get(incoming) ?? { caller: anybody, asked: this.#asked(incoming) };
  }

  #refusal(incoming: IncomingMessage, transport: Transport, asked: Asked): AppError | undefined {
    if (transport === 'tls') return new AppError('not_found', 'Only ports of sandboxes are served here');
    const refusal = malformed(incoming) ?? this.#gate(incoming, transport, asked);
    if (refusal !== undefined || !this.#isDraining) return refusal;
    return new AppError('shutting_down', 'The daemon is stopping: try again later');
  }

  #gate(incoming: IncomingMessage, transport: RequestHead['transport'], asked: Asked): AppError | undefined {
    const { url = '' } = incoming;
    const [path = '', query] = url.split('?', 2);
    const ticket = incoming.method === 'GET' ? ticketOf(query) : undefined;
    const peer = this.#peers.get(incoming.socket)?.peer ?? 'unknown';
    const found = this.#options.gate.check({ path, headers: incoming.headers, transport, peer, ticket });
    // First of all a page of somebody else is told so: others may be told over a WebSocket what is wrong.
    const isForeign = found instanceof AppError && found.code === 'origin_refused';
    const caller = (isForeign ? undefined : misplacedToken(incoming)) ?? found;
    if (!(caller instanceof AppError)) {
      this.#passed.set(incoming, { caller, asked });
      return undefined;
    }
    const { status } = errorAnswer(caller, dialectOf(url));
    const answered = { ...asked, caller: anybody, operation: null, error: caller, status, durationMs: 0 };
    this.#options.audit.writeBounded(auditLine(answered));
    return caller;
  }

  /** The gate let its request pass. An address that is open to all shows nothing of who asks. */
  #welcome(incoming: IncomingMessage, newcomers: Newcomers): void {
    const [path = ''] = (incoming.url ?? '').split('?', 1);
    if (!this.#options.gate.isForAll(path)) newcomers.pass(incoming.socket);
  }

  #refuse(incoming: IncomingMessage, outgoing: ServerResponse, error: AppError): void {
    const answer = errorAnswer(error, dialectOf(incoming.url ?? ''));
    this.#options.counters.record('none', answer.status, 0);
    const last = { ...answer, headers: { ...answer.headers, connection: 'close' } };
    sendAnswer(last, incoming, outgoing).catch(() => outgoing.destroy());
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
    if (this.#options.others.has(incoming.headers.host)) {
      this.#upgradeOther(request, this.#sender(incoming, transport, newcomers));
      return;
    }
    const asked = this.#asked(incoming);
    const refusal = this.#refusal(incoming, transport, asked);
    if (refusal !== undefined) {
      refuseSocket({ ...request, requestId: asked.requestId }, refusal);
      return;
    }
    this.#welcome(incoming, newcomers);
    const passed = this.#passedOf(incoming);
    const forget = this.#keyWatch.add(passed.caller, socket);
    this.#begin();
    this.#upgraded.add(socket);
    const finish = (): void => {
      this.#upgraded.delete(socket);
      forget?.();
      this.#end();
    };
    this.#options
      .upgrade({ incoming, socket, head, requestId: asked.requestId }, passed)
      .then(finish, (error: unknown) => {
        this.#options.log.error('upgrade.fault', { error });
        socket.destroy();
        finish();
      });
  }

  #serveOther(
    request: {
      readonly incoming: IncomingMessage;
      readonly outgoing: ServerResponse;
      readonly expectsContinue: boolean;
    },
    { sender, release }: Admitted,
  ): void {
    const { incoming, outgoing, expectsContinue } = request;
    this.#options.others
      .serve(incoming, outgoing, { ...sender, expectsContinue })
      .catch((error: unknown) => {
        this.#options.log.error('request.fault', { error });
        outgoing.destroy();
      })
      .finally(release);
  }

  #upgradeOther(
    { incoming, socket, head }: { incoming: IncomingMessage; socket: Duplex; head: Buffer },
    { sender, release }: Admitted,
  ): void {
    this.#begin();
    this.#upgraded.add(socket);
    this.#options.others
      .upgrade(incoming, { socket: socket as Socket, head }, sender)
      .catch((error: unknown) => {
        if (error instanceof AppError) {
          refuseUpgrade({ socket, path: '/v1' }, error);
          return;
        }
        this.#options.log.error('upgrade.fault', { error });
        socket.destroy();
      })
      .finally(() => {
        release();
        this.#upgraded.delete(socket);
        this.#end();
      });
  }

  #sender(incoming: IncomingMessage, transport: Transport, newcomers: Newcomers): Admitted {
    let forget: (() => void) | undefined;
    const sender: Sender = {
      transport,
      peer: this.#peers.get(incoming.socket)?.peer ?? 'unknown',
      asked: this.#asked(incoming),
      expectsContinue: false,
      welcome: (caller) => {
        newcomers.pass(incoming.socket);
        forget = this.#keyWatch.add(caller, incoming.socket);
      },
    };
    return { sender, release: () => forget?.() };
  }

  /** @param before of the same connection: until it is sent its client reads nothing of this one, which would lie in memory whole */
  async #answer(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    before: ServerResponse | undefined,
  ): Promise<void> {
    if (before?.closed === false) {
      const { promise, resolve } = Promise.withResolvers<void>();
      before.once('close', resolve);
      await promise;
      // Nothing of it has begun.
      if (incoming.socket.destroyed) return;
    }
    const answer = await this.#options
      .answer({ incoming, outgoing, ...this.#passedOf(incoming) })
      .catch((error: unknown) => this.#fault(error));
    await sendAnswer(answer, incoming, outgoing).catch((error: unknown) => {
      this.#fault(error);
      outgoing.destroy();
    });
  }

  #fault(error: unknown): Answer {
    this.#options.log.error('request.fault', { error });
    const sentence = 'A fault in Squash itself; the daemon’s log has the details';
    return errorAnswer(new AppError('internal', sentence), 'native');
  }
}

async function listening(server: Server, host: string, port: number): Promise<Bound> {
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

/** Too many connections are refused before anything is parsed. Takes the place of the listener that parses. */
function greet(server: Server, newcomers: Newcomers, event: 'connection' | 'secureConnection'): void {
  const parsers = server.listeners(event);
  server.removeAllListeners(event);
  server.on(event, (socket: Socket) => {
    const refused = newcomers.take(socket);
    if (refused === undefined) {
      for (const parse of parsers) parse.call(server, socket);
      return;
    }
    socket.on('error', () => {
      // It is being closed in any case.
    });
    refuseUpgrade({ socket, path: '/v1' }, refused);
  });
}
