/**
 * `run/egress.sock`: what the launcher connects on behalf of the relays. The first frame, which the launcher has
 * written, says what a connection is: a relay's control connection, or one program's stream of bytes.
 *
 * That frame is the only word on who is speaking. What follows on a control connection comes from the relay, what
 * follows on a stream from code in the sandbox.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { FrameDecoder, FrameError } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import { errorText } from '@squash/base/bug';
import type { Log } from '@squash/base/log';
import { protocolsKnown } from '@squash/contract/guest';
import { sandboxIdSchema } from '@squash/contract/ids';
import { listenPrivately } from '../listen.ts';
import { egressLimits as limits } from '../limits.ts';
import type { ConnectionName } from './launch-channel.ts';

export interface RelayHello {
  readonly instance: number;
  readonly sandbox: string;
}

export interface RelayListenerHandlers {
  /** `decoder` and `rest` carry on where the first frame ended. */
  readonly onControl: (hello: RelayHello, link: ControlLink) => void;
  /** Nothing of the stream is lost: what came behind the frame is read first, by whoever reads now. */
  readonly onStream: (name: ConnectionName, socket: Socket) => void;
}

export interface ControlLink {
  readonly socket: Socket;
  readonly decoder: FrameDecoder;
  readonly rest: Uint8Array;
}

export class RelayListener implements AsyncDisposable {
  readonly #handlers: RelayListenerHandlers;
  readonly #log: Log;
  readonly #server: Server;
  readonly #greeting = new Set<Socket>();
  /** Of every sandbox, until it is closed: the server's end waits for all of them. */
  readonly #open = new Set<Socket>();
  readonly #stack = new AsyncDisposableStack();

  constructor(handlers: RelayListenerHandlers, log: Log) {
    this.#handlers = handlers;
    this.#log = log;
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#greet(socket));
    // Node's own default is 511; a thousand streams may be on their way at once.
    this.#server.maxConnections = limits.interceptedMax * 2;
  }

  async listen(path: string): Promise<void> {
    this.#stack.use(await listenPrivately(this.#server, path));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    await this.#stack.disposeAsync();
  }

  #greet(socket: Socket): void {
    this.#open.add(socket);
    socket.once('close', () => this.#open.delete(socket));
    const decoder = new FrameDecoder();
    this.#greeting.add(socket);
    const timer = setTimeout(() => void socket.destroy(), limits.helloMs + limits.helloAgainMs);
    const finish = (): void => {
      clearTimeout(timer);
      this.#greeting.delete(socket);
      socket.off('readable', onReadable).off('close', finish).off('error', ignore).off('end', onEnd);
    };
    const ignore = (): void => {
      // 'close' follows: who has not said a word needs no more care.
    };
    const onEnd = (): void => void socket.destroy();
    const onReadable = (): void => {
      try {
        for (let chunk = read(socket); chunk !== null; chunk = read(socket)) {
          for (const frame of decoder.decode(chunk)) {
            if (frame.kind === 'data') throw new FrameError('type', 'raw data instead of a greeting');
            const rest = chunk.subarray(chunk.length - decoder.restBytes);
            finish();
            this.#admit(frame.type, new FieldReader(frame.fields), { socket, decoder, rest });
            return;
          }
        }
      } catch (error) {
        if (!(error instanceof FrameError)) throw error;
        this.#log.warn('relay.refused', { reason: errorText(error) });
        socket.destroy();
      }
    };
    // Not `data`: who takes a stream over finds it as if nobody had read of it.
    socket.on('readable', onReadable).on('close', finish).on('error', ignore).on('end', onEnd);
  }

  #admit(type: string, fields: FieldReader, link: ControlLink): void {
    const instance = fields.integer('instance');
    if (type === 'relayHello') {
      const protocol = fields.optionalInteger('protocol') ?? 1;
      if (!protocolsKnown.includes(protocol)) {
        throw new FrameError('field', `a relay speaks protocol ${protocol}: restart everything`);
      }
      const name = sandboxIdSchema.safeParse(fields.text('name', 64));
      if (!name.success) throw new FrameError('field', 'a relay names its sandbox by no valid id');
      this.#handlers.onControl({ instance, sandbox: name.data }, link);
      return;
    }
    if (type !== 'relayStream') throw new FrameError('type', `"${type}" is no greeting`);
    // A reset before anybody listens must not end the process.
    link.socket.on('error', () => undefined);
    if (link.rest.length > 0) link.socket.unshift(link.rest);
    this.#handlers.onStream({ instance, connection: fields.integer('connection') }, link.socket);
  }
}

function read(socket: Socket): Buffer | null {
  return socket.read() as Buffer | null;
}
