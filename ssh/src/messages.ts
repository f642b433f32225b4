/** A WebSocket to the daemon with backpressure in both directions, which `ws` leaves to its user. */
import type { RawData, WebSocket } from 'ws';

export type Message =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'binary'; readonly data: Buffer };

/** What may wait to be taken; then the socket is not read. */
const queuedBytesMax = 262_144;

export class Messages {
  readonly #socket: WebSocket;
  readonly #queue: Message[] = [];
  #queuedBytes = 0;
  #arrived: (() => void) | undefined;
  #isClosed = false;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data, isBinary) => this.#take(bufferOf(data), isBinary));
    socket.on('error', () => {
      // 'close' follows, and says all that matters.
    });
    socket.once('close', () => {
      this.#isClosed = true;
      this.#arrived?.();
    });
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
    if (this.#queuedBytes < queuedBytesMax && this.#socket.isPaused) this.#socket.resume();
    return message;
  }

  /** Resolves when the kernel took it. */
  send(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.send(data, { binary: typeof data !== 'string' }, (error) =>
        error ? reject(error) : resolve(),
      );
    });
  }

  close(): void {
    if (this.#socket.isPaused) this.#socket.resume();
    this.#socket.close(1000);
  }

  /** The daemon sees the client gone. */
  terminate(): void {
    this.#socket.terminate();
  }

  #take(data: Buffer, isBinary: boolean): void {
    const message: Message = isBinary ? { type: 'binary', data } : { type: 'text', text: data.toString() };
    this.#queue.push(message);
    this.#queuedBytes += size(message);
    if (this.#queuedBytes >= queuedBytesMax) this.#socket.pause();
    this.#arrived?.();
  }
}

/** An empty message costs memory too. */
const size = (message: Message): number =>
  64 + (message.type === 'text' ? message.text.length : message.data.length);

export function bufferOf(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
