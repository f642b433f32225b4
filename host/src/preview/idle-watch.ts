/** Ends what has stood still for too long, and tells that it has not. */
import type { Readable } from 'node:stream';
import { countBuffers } from '@squash/base/buffer-garbage';

export class IdleWatch implements Disposable {
  readonly #timer: NodeJS.Timeout;
  readonly #onBytes: () => void;

  /** @param onBytes called for each piece that moves: what it does must be small */
  constructor(idleMs: number, onIdle: () => void, onBytes: () => void) {
    this.#timer = setTimeout(onIdle, idleMs);
    this.#onBytes = onBytes;
  }

  /** To be called where the stream is begun to be read: a listener sets it flowing. */
  follow(stream: Readable): void {
    stream.on('data', (chunk: Buffer) => {
      countBuffers(chunk.length);
      this.#timer.refresh();
      this.#onBytes();
    });
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
