/**
 * Stdin of one command, at most a window ahead of what the command took.
 *
 * Without the window, bytes that a command does not read would stand in the connection before the daemon's own
 * acknowledgments and signals. Writes keep their order, also when they are not awaited.
 */
import { encodeDataHeader, encodeFields, type Field } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import { frameDataBytesMax, guestWindowBytes } from '@squash/contract/guest/frames';
import { breach, type FrameConnection } from './frame-connection.ts';

export class StdinWindow {
  readonly #connection: FrameConnection;
  #sent: number;
  #taken: number;
  #last: Promise<void> = Promise.resolve();
  #wake: (() => void) | undefined;
  #isStopped = false;
  #isEnded = false;
  #failure: unknown;

  constructor(connection: FrameConnection, from: { readonly sent: number; readonly taken: number }) {
    this.#connection = connection;
    this.#sent = from.sent;
    this.#taken = from.taken;
  }

  /** Resolves at once for a command that has ended: nobody will read it. @throws guest_failed */
  write(chunk: Uint8Array): Promise<void> {
    if (this.#isEnded) return Promise.resolve();
    this.#last = this.#last.then(() => this.#write(chunk));
    return this.#last;
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const end = async (): Promise<void> => {
      if (!this.#isStopped) this.#connection.post(encodeFields('stdinEof', []));
    };
    // A write that failed has told its caller; there is nothing to end then.
    this.#last = this.#last.then(end, () => undefined);
  }

  /** The command has ended, or the connection has failed for this reason. */
  stop(failure: unknown): void {
    this.#isStopped = true;
    this.#failure = failure;
    this.#notify();
  }

  /** PID 1 tells what the command took. @throws guest_failed, FrameError */
  acknowledge(fields: readonly Field[]): void {
    const reader = new FieldReader(fields);
    const taken = reader.integer('offset');
    reader.done();
    if (taken <= this.#taken || taken > this.#sent)
      throw breach('an acknowledgment of stdin that was not sent');
    this.#taken = taken;
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  async #write(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length; ) {
      while (!this.#isStopped && this.#sent - this.#taken >= guestWindowBytes) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isStopped) return;
      const room = Math.min(frameDataBytesMax, guestWindowBytes - (this.#sent - this.#taken));
      const piece = chunk.subarray(at, at + room);
      at += piece.length;
      this.#sent += piece.length;
      this.#connection.post(encodeDataHeader('stdin', piece.length));
      await this.#connection.send(piece);
    }
  }
}
