/**
 * The connection of a command that was released, kept a moment for the next command: over vsock, making and ending one costs the guest's
 * kernel more than the command's own frames do.
 *
 * PID 1 says with `ok`, once for each connection, that it reads another request there; one of an earlier release never does.
 */
import { encodeFields } from '@squash/contract/guest/codec';
import type { FrameConnection } from './frame-connection.ts';

/** Of a client that runs command after command; an idle sandbox holds no connection. */
const keptMs = 1_000;

export class KeptConnection {
  readonly #known = new WeakSet<FrameConnection>();
  /** One at a time, also while it has not said `ok`. */
  #kept: FrameConnection | undefined;
  #isReady = false;
  #timer: NodeJS.Timeout | undefined;

  /** Undefined: there is none. Whoever has it finds out whether the other side is still there. */
  take(): FrameConnection | undefined {
    const kept = this.#kept;
    if (kept === undefined || !this.#isReady) return undefined;
    this.#drop();
    if (kept.isQuiet) return kept;
    kept.close();
    return undefined;
  }

  /** Releases the command of `connection`, which nobody reads any more. */
  release(connection: FrameConnection): void {
    const frame = encodeFields('release', []);
    if (this.#kept !== undefined) {
      connection.endWith(frame);
      return;
    }
    connection.post(frame);
    this.#kept = connection;
    this.#isReady = this.#known.has(connection);
    this.#timer = setTimeout(() => {
      this.#drop();
      connection.close();
    }, keptMs).unref();
    if (!this.#isReady) void this.#hearOk(connection);
  }

  async #hearOk(connection: FrameConnection): Promise<void> {
    // Whatever fails, the command is over and its connection of no use.
    const frame = await connection.next().catch(() => undefined);
    if (frame?.type === 'ok' && frame.fields.length === 0) {
      this.#known.add(connection);
      if (this.#kept === connection) this.#isReady = true;
      return;
    }
    if (this.#kept === connection) this.#drop();
    connection.close();
  }

  #drop(): void {
    clearTimeout(this.#timer);
    this.#kept = undefined;
    this.#isReady = false;
  }
}
