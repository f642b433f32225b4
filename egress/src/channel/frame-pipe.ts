/**
 * Frames both ways on one socket, many small ones at a time: what is posted in one turn of the event loop leaves in
 * one write.
 *
 * Reading stops for good at the first byte string that is no frame: the other side is then broken or hostile, and `onEnd`
 * says why. Nothing here waits: who posts looks at `queuedBytes`.
 */
import type { Socket } from 'node:net';
import { type Field, type FieldFrameName, FrameDecoder, FrameError } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';

/** For the other side to take a last frame: it is on the same machine, and reads or never will. */
const finishMs = 1_000;

export interface FramePipeHandlers {
  /** @throws FrameError where the frame has no business here: the pipe ends then */
  readonly onFrame: (type: FieldFrameName, fields: FieldReader) => void;
  /** Once. `undefined`: the other side closed. */
  readonly onEnd: (reason: Error | undefined) => void;
}

export class FramePipe {
  readonly #socket: Socket;
  readonly #handlers: FramePipeHandlers;
  readonly #decoder: FrameDecoder;
  #isCorked = false;
  #isOver = false;

  /** `decoder` is given where the first frames were already read from it. */
  constructor(socket: Socket, handlers: FramePipeHandlers, decoder = new FrameDecoder()) {
    this.#socket = socket;
    this.#handlers = handlers;
    this.#decoder = decoder;
    socket.on('data', (chunk: Uint8Array) => this.take(chunk));
    socket.on('end', () => this.close());
    socket.on('close', () => this.close());
    socket.on('error', (error) => this.close(error));
  }

  /** Bytes that the other side has not taken yet. */
  get queuedBytes(): number {
    return this.#socket.writableLength;
  }

  post(frame: Uint8Array): void {
    if (this.#isOver) return;
    if (!this.#isCorked) {
      this.#isCorked = true;
      this.#socket.cork();
      setImmediate(() => {
        this.#isCorked = false;
        this.#socket.uncork();
      });
    }
    this.#socket.write(frame);
  }

  take(chunk: Uint8Array): void {
    if (this.#isOver) return;
    try {
      for (const frame of this.#decoder.decode(chunk)) {
        if (frame.kind === 'data') throw new FrameError('type', 'raw data is not expected here');
        this.#give(frame);
        if (this.#isOver) return;
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.close(error);
    }
  }

  #give(frame: { readonly type: FieldFrameName; readonly fields: readonly Field[] }): void {
    this.#handlers.onFrame(frame.type, new FieldReader(frame.fields));
  }

  /** Closes when what was posted has left, or a second has passed. */
  finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const timer = setTimeout(() => void this.#socket.destroy(), finishMs);
    this.#socket.once('close', () => clearTimeout(timer));
    this.#socket.end(() => void this.#socket.destroy());
    this.#handlers.onEnd(undefined);
  }

  close(reason?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket.destroy();
    this.#handlers.onEnd(reason);
  }
}
