/**
 * One connection to PID 1 as a stream of well-formed frames, with every failure as `guest_failed`.
 *
 * Frames are read ahead, up to so many bytes; past that the socket is paused, so a guest that floods fills
 * its own socket buffer and nothing here. `next` is for one reader at a time.
 */
import type { Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import { type Frame, FrameDecoder, FrameError } from '@squash/contract/guest/codec';
import { framePayloadBytesMax } from '@squash/contract/guest/frames';
import { countBuffers } from '@squash/base/buffer-garbage';

/** One largest frame: more only delays the pause. */
const readAheadBytesMaxDefault = framePayloadBytesMax;
/** For a last frame, to be taken by a guest that may never read it. */
const lastMsMax = 1_000;

interface Waiter {
  resolve(frame: Frame): void;
  reject(error: unknown): void;
}

export class FrameConnection implements Disposable {
  readonly #stream: Duplex;
  readonly #readAheadBytesMax: number;
  readonly #decoder = new FrameDecoder();
  readonly #frames: Frame[] = [];
  #queuedBytes = 0;
  #waiter: Waiter | undefined;
  #failure: unknown;
  #isOver = false;
  #isEnded = false;
  #isLost = false;

  constructor(stream: Duplex, readAheadBytesMax = readAheadBytesMaxDefault) {
    this.#stream = stream;
    this.#readAheadBytesMax = readAheadBytesMax;
    stream.on('data', this.#onData);
    stream.on('end', this.#onEnd);
    stream.on('close', this.#onEnd);
    stream.on('error', this.#onError);
  }

  /** Whether the other side is there, as far as is known, and has said nothing that nobody has taken. */
  get isQuiet(): boolean {
    return !this.#isOver && this.#frames.length === 0;
  }

  /** Whether the other side, or the way to it, went away while this one was open. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Resolves when the stream has room again. A failed write, and a guest that takes nothing for `deadlineMs`, show in `next`. */
  async send(frame: Uint8Array, deadlineMs?: number): Promise<void> {
    if (this.#isOver || this.#stream.write(frame)) return;
    const timer = deadlineMs === undefined ? undefined : this.failAfter(deadlineMs);
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.#stream.off('drain', done);
        this.#stream.off('close', done);
        resolve();
      };
      this.#stream.on('drain', done);
      this.#stream.on('close', done);
    });
    clearTimeout(timer);
  }

  /** For frames so small and rare that nobody waits for room: signals, acknowledgments. */
  post(frame: Uint8Array): void {
    if (!this.#isOver) this.#stream.write(frame);
  }

  /** The next frame. @throws guest_failed when the guest closed, sent no frame, or `deadlineMs` have passed */
  next(deadlineMs?: number): Promise<Frame> {
    const frame = this.#frames.shift();
    if (frame !== undefined) {
      this.#queuedBytes -= sizeOf(frame);
      if (this.#queuedBytes < this.#readAheadBytesMax && this.#stream.isPaused()) this.#stream.resume();
      return Promise.resolve(frame);
    }
    if (this.#isEnded) this.#failure ??= closedByGuest();
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      const timer = deadlineMs === undefined ? undefined : this.failAfter(deadlineMs);
      this.#waiter = {
        resolve: (value) => {
          clearTimeout(timer);
          resolve(value);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      };
    });
  }

  /** Ends the connection for a reason that `next` throws from now on. The first reason stays. */
  fail(reason: unknown): void {
    this.#failure ??= reason;
    this.close();
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.reject(this.#failure);
  }

  /** Ends the connection as late, unless the timer is cleared before. */
  failAfter(deadlineMs: number): NodeJS.Timeout {
    return setTimeout(() => this.fail(late(deadlineMs)), deadlineMs);
  }

  /** Sends a last frame, then closes: soon, also where it is not taken. */
  endWith(frame: Uint8Array): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stream.write(frame);
    // Nearly always the kernel has it now. A stream that is ended and closed before it has finished makes an error.
    if (this.#stream.writableLength === 0) {
      this.#stream.destroy();
      return;
    }
    this.#stream.end(() => this.#stream.destroy());
    const timer = setTimeout(() => this.#stream.destroy(), lastMsMax).unref();
    this.#stream.on('close', () => clearTimeout(timer));
  }

  /** The stream with what came behind the last frame, for a protocol without frames. */
  detach(): Duplex {
    this.#isOver = true;
    this.#stream.pause();
    this.#stream.off('data', this.#onData);
    this.#stream.off('end', this.#onEnd);
    this.#stream.off('close', this.#onEnd);
    this.#stream.off('error', this.#onError);
    if (this.#rest.length > 0) this.#stream.unshift(this.#rest);
    return this.#stream;
  }

  /** From now on the next frame is the last: what follows it is kept for `detach`. */
  stopBehindNextFrame(): void {
    this.#isLastFrame = true;
  }

  close(): void {
    this.#isOver = true;
    this.#stream.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #isLastFrame = false;
  #rest: Uint8Array = new Uint8Array(0);

  readonly #onData = (chunk: Buffer): void => {
    if (this.#isOver) return;
    countBuffers(chunk.length);
    try {
      for (const frame of this.#decoder.decode(chunk)) {
        this.#take(frame);
        if (!this.#isLastFrame) continue;
        this.#rest = chunk.subarray(chunk.length - this.#decoder.restBytes);
        this.#stream.off('data', this.#onData);
        this.#stream.pause();
        return;
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.fail(breach(error.message, error));
    }
  };

  #take(frame: Frame): void {
    const waiter = this.#waiter;
    if (waiter !== undefined) {
      this.#waiter = undefined;
      waiter.resolve(frame);
      return;
    }
    this.#frames.push(frame);
    this.#queuedBytes += sizeOf(frame);
    if (this.#queuedBytes >= this.#readAheadBytesMax) this.#stream.pause();
  }

  readonly #onEnd = (): void => {
    this.#isLost ||= !this.#isOver;
    this.#isEnded = true;
    // Every connection ends. The error, with its stack trace, is made where somebody waits or comes to ask.
    if (this.#waiter === undefined) this.close();
    else this.fail(closedByGuest());
  };

  readonly #onError = (error: unknown): void => {
    this.#isLost ||= !this.#isOver;
    this.fail(
      new AppError('guest_failed', 'The connection to PID 1 of the sandbox failed.', { cause: error }),
    );
  };
}

function closedByGuest(): AppError {
  return new AppError('guest_failed', 'PID 1 of the sandbox closed the connection.');
}

/** What the guest sent is not what the protocol allows. */
export function breach(what: string, cause?: unknown): AppError {
  return new AppError('guest_failed', `PID 1 of the sandbox breaks the protocol: ${what}.`, { cause });
}

function late(deadlineMs: number): AppError {
  return new AppError('guest_failed', `PID 1 of the sandbox did not answer within ${deadlineMs} ms.`);
}

/** Also an empty frame takes memory. */
function sizeOf(frame: Frame): number {
  if (frame.kind === 'data') return frame.data.length + 64;
  return frame.fields.reduce(
    (sum, { value }) => sum + (typeof value === 'number' ? 16 : value.length + 16),
    64,
  );
}
