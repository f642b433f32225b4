/**
 * Reads a socket as lines, counted bytes and chunks, with a limit on everything that is buffered.
 *
 * Nothing is read ahead of the caller (beyond one chunk): that is what carries backpressure from whoever reads
 * our output to the command in the sandbox.
 */
import type { Socket } from 'node:net';
import { Failure } from '../failure.ts';

export class ByteSource {
  readonly #chunks: AsyncIterator<Buffer>;
  #buffered: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    // The socket stays open when the iteration ends: a response may end before a request's body.
    this.#chunks = socket.iterator({ destroyOnReturn: false });
  }

  /** Bytes that are here already, or the next chunk; `undefined` at the end. */
  async chunk(bytesMax: number): Promise<Buffer | undefined> {
    if (this.#buffered.length === 0 && !(await this.#fill())) return undefined;
    return this.#take(Math.min(bytesMax, this.#buffered.length));
  }

  async exactly(bytes: number): Promise<Buffer> {
    if (this.#buffered.length < bytes) {
      const parts = [this.#buffered];
      let have = this.#buffered.length;
      while (have < bytes) {
        this.#buffered = Buffer.alloc(0);
        if (!(await this.#fill()))
          throw new Failure('hung_up', 'the daemon closed the connection in the middle of an answer');
        parts.push(this.#buffered);
        have += this.#buffered.length;
      }
      this.#buffered = Buffer.concat(parts);
    }
    return this.#take(bytes);
  }

  /** One line without its CRLF. */
  async line(bytesMax: number): Promise<string> {
    for (;;) {
      const end = this.#buffered.indexOf(0x0a);
      if (end >= 0)
        return this.#take(end + 1)
          .toString('latin1')
          .replace(/\r?\n$/, '');
      if (this.#buffered.length > bytesMax)
        throw new Failure('too_long', 'the daemon’s answer has a line that is too long');
      const before = this.#buffered;
      if (!(await this.#fill()))
        throw new Failure('hung_up', 'the daemon closed the connection before it answered');
      this.#buffered = Buffer.concat([before, this.#buffered]);
    }
  }

  #take(bytes: number): Buffer {
    const taken = this.#buffered.subarray(0, bytes);
    this.#buffered = this.#buffered.subarray(bytes);
    return taken;
  }

  async #fill(): Promise<boolean> {
    const next = await this.#chunks.next();
    if (next.done === true) return false;
    this.#buffered = next.value;
    return true;
  }
}
