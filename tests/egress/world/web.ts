/**
 * The web servers of the little Internet: HTTP/1.1, HTTP/2 and WebSocket on every address, in clear and over TLS with
 * certificates of the tests' own authority. What they receive is witnessed as it came; what they answer tells on them.
 *
 * HTTP/1.1 is parsed leniently on purpose: a server that shrugs at a doubled length is what smuggling needs.
 */
import { once } from 'node:events';
import {
  createServer as createHttp,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http';
import {
  createServer as createHttp2,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2';
import { createServer as createTcp, type Server as TcpServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createServer as createTls, createSecureContext, type TLSSocket } from 'node:tls';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { WebSocketServer } from 'ws';
import { canary, plainAddress, type Witness } from './events.ts';
import { serveFiles } from './files.ts';
import { ports } from './places.ts';

export type Asked = IncomingMessage | Http2ServerRequest;
export type Answering = ServerResponse | Http2ServerResponse;

export interface Credentials {
  readonly key: string;
  readonly cert: string;
}

export interface WebOptions {
  readonly witness: Witness;
  /** Of the authority the host trusts, and of one that nobody trusts: `bad-cert.*` gets that. */
  readonly good: Credentials;
  readonly bad: Credentials;
  /** What git, pip and apt fetch. */
  readonly filesDir: string;
}

const bodyKept = 65_536;
/** A client that waits for the server to speak first gets its greeting so late. */
const greetMs = 200;

export class WebWorld {
  readonly #options: WebOptions;
  readonly #http1: Server;
  readonly #http2: Http2Server;
  readonly #sockets = new WebSocketServer({ noServer: true });
  readonly #listeners: TcpServer[] = [];

  constructor(options: WebOptions) {
    this.#options = options;
    const onRequest = (asked: Asked, answer: Answering): void => void this.#serve(asked, answer);
    this.#http1 = createHttp({ insecureHTTPParser: true, keepAliveTimeout: 60_000 }, onRequest);
    // As most servers have it, and Node's not: who has ended his side is answered.
    Object.assign(this.#http1, { httpAllowHalfOpen: true });
    this.#http1.on('checkContinue', (asked: IncomingMessage, answer: ServerResponse) => {
      answer.writeContinue();
      onRequest(asked, answer);
    });
    this.#http1.on('upgrade', (asked: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#upgrade(asked, socket, head),
    );
    this.#http1.on('connect', (asked: IncomingMessage, socket: Duplex) => {
      this.#seen(asked, '', 0);
      socket.end(`HTTP/1.1 200 OK\r\n\r\n${canary} connect`);
    });
    this.#http2 = createHttp2({}, onRequest);
    this.#http2.on('sessionError', () => undefined);
  }

  async listen(): Promise<void> {
    const { good, bad, witness } = this.#options;
    const badContext = createSecureContext({ ...bad });
    const tls = createTls({
      ...good,
      ALPNProtocols: ['h2', 'http/1.1'],
      SNICallback: (name, done) => done(null, name.startsWith('bad-cert.') ? badContext : undefined),
    });
    tls.on('tlsClientError', () => undefined);
    tls.on('secureConnection', (socket: TLSSocket) => {
      socket.on('error', () => socket.destroy());
      const server = socket.alpnProtocol === 'h2' ? this.#http2 : this.#http1;
      server.emit('connection', socket);
    });
    const listen = async (port: number, take: (socket: Socket) => void): Promise<void> => {
      const server = createTcp({ allowHalfOpen: true }, (socket) => {
        witness.add({ kind: 'connection', address: plainAddress(socket.localAddress), port });
        socket.on('error', () => socket.destroy());
        take(socket);
      });
      server.listen(port, '::');
      await once(server, 'listening');
      this.#listeners.push(server);
    };
    await listen(ports.http, (socket) => void this.#http1.emit('connection', socket));
    for (const port of [ports.https, ports.dnsTls]) {
      await listen(port, (socket) => void tls.emit('connection', socket));
    }
    await listen(ports.greeting, (socket) => {
      socket.write(`SSH-2.0-${canary}\r\n`);
      this.#keep(socket, ports.greeting);
    });
    await listen(ports.bytes, (socket) => {
      this.#keep(socket, ports.bytes);
      greetLate(socket, `${canary} ${plainAddress(socket.localAddress)}\n`);
      socket.on('data', (part) => socket.write(part));
      socket.on('end', () => socket.end());
    });
  }

  /** Witnesses what comes in as bytes. */
  #keep(socket: Socket, port: number): void {
    const address = plainAddress(socket.localAddress);
    socket.on('data', (part: Buffer) =>
      this.#options.witness.add({
        kind: 'bytes',
        address,
        port,
        text: part.toString('latin1', 0, bodyKept),
      }),
    );
  }

  async #serve(asked: Asked, answer: Answering): Promise<void> {
    const kept: Buffer[] = [];
    let bytes = 0;
    try {
      for await (const part of asked as AsyncIterable<Buffer>) {
        // A push is for git to read, whole.
        if (bytes < bodyKept || asked.url?.startsWith('/git/') === true) kept.push(part);
        bytes += part.length;
      }
    } catch {
      // Broken off: what came is still witnessed.
    }
    const body = Buffer.concat(kept).toString('latin1', 0, bodyKept);
    this.#seen(asked, body, bytes);
    const url = new URL(asked.url ?? '/', 'http://x');
    if (await serveFiles(this.#options.filesDir, { asked, answer, url, body: Buffer.concat(kept) })) return;
    reply(asked, answer, { url, body, bytes });
  }

  #seen(asked: Asked, body: string, bodyBytes: number): void {
    const socket = asked.socket as TLSSocket;
    const { host, ':authority': authority } = asked.headers as Record<string, string | undefined>;
    const secure =
      'servername' in socket && typeof socket.servername === 'string' ? socket.servername : undefined;
    this.#options.witness.add({
      kind: 'request',
      address: plainAddress(socket.localAddress),
      port: socket.localPort ?? 0,
      version: asked.httpVersion,
      method: asked.method ?? '',
      url: asked.url ?? '',
      authority: authority ?? host ?? '',
      headers: { ...asked.headers },
      trailers: { ...(asked.trailers as Record<string, string | undefined>) },
      body,
      bodyBytes,
      serverName: secure,
    });
  }

  #upgrade(asked: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#seen(asked, '', 0);
    if (asked.headers.upgrade?.toLowerCase() !== 'websocket') {
      socket.end('HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n');
      return;
    }
    this.#sockets.handleUpgrade(asked, socket, head, (client) => {
      client.send(JSON.stringify({ canary, authorization: asked.headers.authorization ?? '' }));
      client.on('message', (data, isBinary) => client.send(data as Buffer, { binary: isBinary }));
      client.on('error', () => client.terminate());
    });
  }
}

interface Content {
  readonly url: URL;
  readonly body: string;
  readonly bytes: number;
}

function reply(asked: Asked, answer: Answering, { url, body, bytes }: Content): void {
  const response = answer as ServerResponse;
  const secret = asked.headers.authorization ?? '';
  const here = `${plainAddress(asked.socket.localAddress)}:${asked.socket.localPort}`;
  switch (url.pathname) {
    case '/reflect':
      return reflect(response, url.searchParams.get('how') ?? 'plain', secret);
    case '/redirect':
      response.writeHead(302, { location: url.searchParams.get('to') ?? '/' }).end();
      return;
    case '/upload':
      response.end(JSON.stringify({ canary, bytes, trailers: asked.trailers }));
      return;
    case '/download':
      return download(response, Number(url.searchParams.get('bytes') ?? 0));
    case '/events':
      return serverSent(response);
    case '/never':
      return;
    case '/paced':
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write(url.searchParams.get('text') ?? '');
      setTimeout(() => response.end('\n'), 2_500);
      return;
    case '/test.Echo/Say':
      return grpc(response, Buffer.from(body, 'latin1'));
    default:
      response.setHeader('content-type', 'text/plain');
      response.end(
        `${canary} ${here} ${String(asked.headers[':authority'] ?? asked.headers.host)} ${url.pathname}\n`,
      );
  }
}

/** Sends back what it was sent, in the ways in which servers do. */
function reflect(response: ServerResponse, how: string, secret: string): void {
  const value = secret.replace(/^Bearer /, '');
  const said = `${canary} you sent ${value} thank you`;
  const packed: Record<string, (text: string) => Buffer> = {
    gzip: (text) => gzipSync(text),
    br: (text) => brotliCompressSync(text),
    deflate: (text) => deflateSync(text),
  };
  const answer = (headers: OutgoingHttpHeaders, body: string | Buffer): void => {
    response.writeHead(200, { 'content-type': 'text/plain', ...headers });
    response.end(body);
  };
  const pack = packed[how];
  if (pack !== undefined) return answer({ 'content-encoding': how }, pack(said));
  switch (how) {
    case 'header':
      return answer({ 'x-reflected': `<${value}>` }, canary);
    case 'cookie':
      return answer({ 'set-cookie': [`a=${value}`, `b=${encodeURIComponent(value)}; Path=/`] }, canary);
    case 'json':
      return answer({ 'content-type': 'application/json' }, JSON.stringify({ said }));
    case 'url':
      return answer({}, encodeURIComponent(said));
    case 'base64':
      return answer({}, Buffer.from(said).toString('base64'));
    case 'base64url':
      return answer({}, Buffer.from(said).toString('base64url'));
    case 'untyped':
      // Nobody says what it is: an archive, a program, a text.
      return answer({ 'content-type': 'application/octet-stream', 'content-length': said.length }, said);
    case 'trailer':
      response.setHeader('trailer', 'x-reflected');
      response.write(canary);
      response.addTrailers({ 'x-reflected': value });
      response.end();
      return;
    case 'bytewise':
      // One byte per write: a filter that looks at each part alone finds nothing.
      response.setHeader('content-type', 'text/plain');
      for (const byte of Buffer.from(said)) response.write(Buffer.from([byte]));
      response.end();
      return;
    case 'early':
      response.writeEarlyHints({ link: `<https://x.test/${value}>; rel=preload` });
      return answer({}, canary);
    case 'status':
      response.writeHead(200, `OK ${value}`);
      response.end(canary);
      return;
    default:
      return answer({}, said);
  }
}

function download(response: ServerResponse, bytes: number): void {
  const block = Buffer.alloc(65_536, 'squash ');
  let left = bytes;
  response.setHeader('content-type', 'application/octet-stream');
  const more = (): void => {
    while (left > 0) {
      const part = block.subarray(0, Math.min(left, block.length));
      left -= part.length;
      if (!response.write(part)) return void response.once('drain', more);
    }
    response.end();
  };
  more();
}

function serverSent(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  let number = 0;
  const timer = setInterval(() => {
    number += 1;
    response.write(`id: ${number}\ndata: ${canary} ${number}\n\n`);
    if (number === 5) {
      clearInterval(timer);
      response.end();
    }
  }, 20);
  response.on('close', () => clearInterval(timer));
}

/** One unary call: the message comes back as it is. */
function grpc(response: ServerResponse, message: Buffer): void {
  response.writeHead(200, { 'content-type': 'application/grpc' });
  response.addTrailers({ 'grpc-status': '0', 'grpc-message': '' });
  response.end(message);
}

/** Behind the first bytes, for a client that speaks: one that meets what is no HTTP hangs up, and its words may be lost on the way. */
function greetLate(socket: Socket, text: string): void {
  const greet = (): void => {
    clearTimeout(timer);
    socket.off('data', greet);
    if (socket.writable) socket.write(text);
  };
  const timer = setTimeout(greet, greetMs);
  socket.on('data', greet).once('close', () => clearTimeout(timer));
}
