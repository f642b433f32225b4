/**
 * One channel of a connection, with the backpressure that `ssh2` leaves to its user: a write resolves when the client's window and the
 * connection's socket have taken the bytes, and never stays open when the channel is gone.
 */
import { once } from 'node:events';
import type { Duplex, Writable } from 'node:stream';
import type { ServerChannel } from 'ssh2';

/** What is carried at once, either way. */
const pieceBytesMax = 65_536;

export class ChannelGoneError extends Error {
  constructor() {
    super('the channel is gone');
    this.name = 'ChannelGoneError';
  }
}

export class ChannelPipe {
  readonly #channel: ServerChannel;
  readonly #socket: Duplex;
  readonly gone: AbortSignal;
  /** One write at a time, over both streams: `ssh2` forgets one of two that wait for the window. */
  #turn: Promise<void> = Promise.resolve();

  /** `gone` is aborted when the channel or its connection is. */
  constructor(channel: ServerChannel, socket: Duplex, gone: AbortSignal) {
    this.#channel = channel;
    this.#socket = socket;
    this.gone = gone;
  }

  write(data: Uint8Array, stream: 'stdout' | 'stderr' = 'stdout'): Promise<void> {
    const target: Writable = stream === 'stdout' ? this.#channel : this.#channel.stderr;
    const written = this.#turn.then(() => this.#write(target, data));
    this.#turn = written.catch(() => undefined);
    return written;
  }

  /** What the client sends, until its end of input. */
  async *input(): AsyncGenerator<Buffer, void, void> {
    const chunks = this.#channel.iterator({ destroyOnReturn: false });
    for (;;) {
      const next = await this.#unlessGone(chunks.next());
      if (next.done === true) return;
      const data = next.value as Buffer;
      for (let at = 0; at < data.length; at += pieceBytesMax) yield data.subarray(at, at + pieceBytesMax);
    }
  }

  /** No more output; the client may go on sending. */
  endOutput(): void {
    this.#channel.eof();
  }

  /** Ends the channel. Idempotent. */
  end(): void {
    this.#channel.end();
  }

  async #write(target: Writable, data: Uint8Array): Promise<void> {
    await this.#unlessGone(
      new Promise<void>((resolve) => {
        // A failure is told by `gone`.
        target.write(data, () => resolve());
      }),
    );
    if (this.#socket.writableNeedDrain) await once(this.#socket, 'drain', { signal: this.gone });
  }

  /** @throws ChannelGoneError */
  async #unlessGone<T>(promise: Promise<T>): Promise<T> {
    const { promise: leaving, reject } = Promise.withResolvers<never>();
    const leave = (): void => reject(new ChannelGoneError());
    this.gone.addEventListener('abort', leave, { once: true });
    if (this.gone.aborted) leave();
    try {
      return await Promise.race([promise, leaving]);
    } finally {
      this.gone.removeEventListener('abort', leave);
    }
  }
}
