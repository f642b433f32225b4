/**
 * A program's bytes where they come to this process: asked of the launcher, awaited, served, ended. What a newcomer would get
 * wrong: it is a Unix socket, which can't be reset. Whoever breaks off says so to the relay.
 */
import type { Socket } from 'node:net';
import { egressLimits as limits } from '../limits.ts';

interface StreamHost {
  /** Has the relay bring it. Resolves with an errno. */
  readonly ask: () => Promise<number>;
  readonly cut: () => void;
  readonly onFault: (error: unknown) => void;
}

export class ProgramStream {
  readonly #host: StreamHost;
  #take: ((socket: Socket) => void) | undefined;
  #socket: Socket | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(host: StreamHost) {
    this.#host = host;
  }

  /** `serve` has it until it is done. */
  async open(serve: (socket: Socket) => Promise<void>): Promise<void> {
    const { ask, cut, onFault } = this.#host;
    this.#take = (socket) => {
      clearTimeout(this.#timer);
      this.#socket = socket;
      serve(socket)
        .catch(onFault)
        .finally(() => this.end());
    };
    this.#timer = setTimeout(() => {
      // Where this process was late itself, what it waits for is there by now and is read next.
      this.#timer = setTimeout(cut, limits.helloAgainMs);
    }, limits.helloMs);
    if ((await ask()) !== 0) cut();
  }

  /** It has come. */
  take(socket: Socket): void {
    const take = this.#take;
    this.#take = undefined;
    if (take === undefined) socket.destroy();
    else take(socket);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#take = undefined;
    // Behind what was said to the relay just now: to a program a reset behind an end is an end.
    setImmediate(() => void this.#socket?.destroy());
  }

  /** The relay has said its last word on it. Of what is carried some may still wait here for its server. */
  finish(isCarried: boolean, onClose: () => void): void {
    const socket = this.#socket;
    if (isCarried && socket?.closed === false) {
      socket.setTimeout(limits.carriedRestMs, () => socket.destroy()).once('close', onClose);
      return;
    }
    this.end();
    onClose();
  }
}
