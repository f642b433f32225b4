/**
 * A WebSocket with backpressure in both directions, which the `ws` package leaves to its user.
 *
 * Out: `send` resolves when the kernel has taken the bytes, so whoever awaits it is stalled by a client that does
 * not read. In: messages are handed out one at a time, and the socket is not read while more than a limit waits.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';

export type Message =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'binary'; readonly data: Buffer };

/** The client has gone or is going: an end like any other, not a fault. */
export class ClientGoneError extends Error {
  constructor(options?: ErrorOptions) {
    super('the client is gone', options);
    this.name = 'ClientGoneError';
  }
}

export interface UpgradeRequest {
  readonly incoming: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Answered with the handshake. */
  readonly requestId: string;
}

export class MessageSocket {
  readonly #socket: WebSocket;
  readonly #queue: Message[] = [];
  readonly #ping: NodeJS.Timeout;
  #watch: NodeJS.Timeout | undefined;
  #queuedBytes = 0;
  #arrived: (() => void) | undefined;
  /** Resolves when the connection is over, whoever ended it. */
  readonly closed: Promise<void>;
  #isClosed = false;
  #isClosing = false;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        this.#isClosed = true;
        clearInterval(this.#ping);
        clearInterval(this.#watch);
        this.#arrived?.();
        resolve();
      });
    });
    socket.on('error', () => {
      // A breach of the protocol or a reset connection: 'close' follows and tells all that matters.
    });
    socket.on('message', (data, isBinary) => this.#take(bufferOf(data), isBinary));
    // Proxies drop silent connections.
    this.#ping = setInterval(() => this.#sendPing(), limits.webSocketPingMs);
    this.#ping.unref();
  }

  /** The next message; undefined when there will be none. One caller at a time. */
  async receive(): Promise<Message | undefined> {
    while (this.#queue.length === 0) {
      if (this.#isClosed) return undefined;
      await new Promise<void>((resolve) => {
        this.#arrived = resolve;
      });
    }
    const message = this.#queue.shift();
    this.#queuedBytes -= message === undefined ? 0 : size(message);
    if (this.#queuedBytes < limits.webSocketInputBytesMax) this.#resume();
    return message;
  }

  /** Resolves when the kernel took it. @throws ClientGoneError */
  send(data: string | Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.send(data, { binary: typeof data !== 'string', compress: false }, (error) =>
        error ? reject(new ClientGoneError({ cause: error })) : resolve(),
      );
    });
  }

  /** Says goodbye and waits for the client's answer; `ws` cuts the connection when none comes. */
  async close(code: number, reason: string): Promise<void> {
    // A paused socket would never see the client's answer, which comes behind all that it still sends.
    this.#isClosing = true;
    this.#queue.length = 0;
    this.#resume();
    this.#socket.close(code, reason);
    await this.closed;
  }

  terminate(): void {
    this.#socket.terminate();
  }

  #take(data: Buffer, isBinary: boolean): void {
    if (this.#isClosing) return;
    const message: Message = isBinary
      ? { type: 'binary', data }
      : { type: 'text', text: data.toString('utf8') };
    this.#queue.push(message);
    this.#queuedBytes += size(message);
    if (this.#queuedBytes >= limits.webSocketInputBytesMax) this.#pause();
    this.#arrived?.();
  }

  /** A socket that is not read does not tell that its client is gone; a ping that can't be written does. */
  #pause(): void {
    this.#socket.pause();
    this.#watch ??= setInterval(() => this.#sendPing(), limits.webSocketWatchMs);
  }

  #resume(): void {
    clearInterval(this.#watch);
    this.#watch = undefined;
    if (this.#socket.isPaused) this.#socket.resume();
  }

  /** A client that does not read now needs no ping on top. */
  #sendPing(): void {
    if (this.#socket.readyState === this.#socket.OPEN && this.#socket.bufferedAmount === 0)
      this.#socket.ping();
  }
}

/** An empty message costs memory too. */
function size(message: Message): number {
  return 64 + (message.type === 'text' ? message.text.length : message.data.length);
}

function bufferOf(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}

/** Does the handshake. @throws invalid_request where the client does not speak the subprotocol */
export class WebSocketUpgrader {
  readonly #server: WebSocketServer;
  readonly #protocol: string;
  readonly #begun = new WeakMap<
    IncomingMessage,
    { readonly requestId: string; readonly fail: (why: string) => void }
  >();

  constructor(protocol: string) {
    this.#protocol = protocol;
    this.#server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      maxPayload: limits.webSocketMessageBytesMax,
      // Compression would hold memory per connection and let guests mix secrets with chosen text.
      perMessageDeflate: false,
      handleProtocols: () => protocol,
    });
    this.#server.on('headers', (lines, incoming) => {
      lines.push(`squash-request-id: ${this.#begun.get(incoming)?.requestId ?? ''}`);
    });
    this.#server.on('wsClientError', ({ message }, _socket, incoming) =>
      this.#begun.get(incoming)?.fail(message),
    );
  }

  accept({ incoming, socket, head, requestId }: UpgradeRequest): Promise<MessageSocket> {
    const offered = (incoming.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
    if (!offered.includes(this.#protocol)) {
      throw new AppError('invalid_request', `the WebSocket must offer the subprotocol ${this.#protocol}`);
    }
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => reject(new AppError('invalid_request', why));
      this.#begun.set(incoming, { requestId, fail });
      socket.once('close', () => fail('the WebSocket handshake failed'));
      this.#server.handleUpgrade(incoming, socket, head, (accepted) => resolve(new MessageSocket(accepted)));
    });
  }
}
