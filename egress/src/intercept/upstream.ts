/**
 * The server's side of one program's connection: connected at the first request, spoken to in what the program speaks
 * where the server can, never shared with another connection, let alone another sandbox.
 */
import type { Duplex } from 'node:stream';
import { lineOf, waitInLine } from '@squash/base/in-line';
import type { InterceptedConnection } from '../ports.ts';
import { interceptLimits } from './limits.ts';
import type { OutgoingRequest, Upstream, UpstreamExchange } from './message.ts';
import { BrokenOff } from '../flow/pump.ts';
import { Http1Upstream } from './upstream-http1.ts';
import { Http2Upstream } from './upstream-http2.ts';
import {
  connectUpstream,
  type Protocol,
  type UpstreamRoots,
  type UpstreamSocket,
} from './upstream-socket.ts';

export class UpstreamOfConnection implements Upstream {
  readonly #connection: InterceptedConnection;
  readonly #roots: UpstreamRoots;
  readonly #front: Protocol;
  /** Every connection that was opened, so that all end with the program's. */
  readonly #sockets = new Set<Duplex>();
  #http1: Http1Upstream | undefined;
  #http2: Promise<Http2Upstream | undefined> | undefined;
  /** Requests that wait for `#http2` while it is being made. */
  readonly #waiting = new Set<() => void>();
  #isOpening = false;
  /** Found to speak HTTP/1.1 where HTTP/2 was offered: for the first request of `#http1`. */
  #spare: Duplex | undefined;
  /** Aborts with the program's connection. */
  readonly #gone = new AbortController();

  /** @param front what the program speaks */
  constructor(connection: InterceptedConnection, roots: UpstreamRoots, front: Protocol) {
    this.#connection = connection;
    this.#roots = roots;
    this.#front = front;
  }

  async send(outgoing: OutgoingRequest, signal: AbortSignal): Promise<UpstreamExchange> {
    signal.throwIfAborted();
    if (this.#front === 'h2') {
      const session = await this.#session(signal);
      signal.throwIfAborted();
      if (session !== undefined) return session.send(outgoing);
    }
    this.#http1 ??= new Http1Upstream(
      this.connectHttp1,
      this.#front === 'h2' ? interceptLimits.http1ConnectionsMax : 1,
    );
    return this.#http1.send(outgoing, signal);
  }

  /** A connection of its own that speaks HTTP/1.1. */
  readonly connectHttp1 = async (signal: AbortSignal): Promise<Duplex> => {
    const spare = this.#spare;
    this.#spare = undefined;
    if (spare !== undefined && !spare.destroyed) return spare;
    return (await this.#connect(['http/1.1'], signal)).socket;
  };

  /** Nothing more comes from the program. */
  end(): void {
    for (const socket of this.#sockets) socket.end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#gone.abort(new BrokenOff('sink'));
    await this.#http1?.[Symbol.asyncDispose]();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** The session, or undefined where the server speaks HTTP/1.1 only. */
  async #session(signal: AbortSignal): Promise<Http2Upstream | undefined> {
    const present = this.#http2;
    if (present !== undefined) {
      const session = await this.#opened(present, signal);
      if (session?.isOver !== true) return session;
    }
    // Others may have seen the same end, and one of them has made the next already.
    if (this.#http2 === present) this.#http2 = undefined;
    this.#http2 ??= this.#open();
    // Who asked for it may have given up before it has failed.
    this.#http2.catch(ignore);
    return this.#opened(this.#http2, signal);
  }

  async #opened(
    session: Promise<Http2Upstream | undefined>,
    signal: AbortSignal,
  ): Promise<Http2Upstream | undefined> {
    if (this.#isOpening) await waitInLine(lineOf(this.#waiting), signal);
    return session;
  }

  /** For all requests of the connection: it is given up with that, not with one of them. */
  async #open(): Promise<Http2Upstream | undefined> {
    const isPlain = this.#connection.protocol === 'http';
    this.#isOpening = true;
    try {
      const protocols: readonly Protocol[] = isPlain ? ['h2'] : ['h2', 'http/1.1'];
      const { socket, protocol } = await this.#connect(protocols, this.#gone.signal);
      if (protocol === 'h2') return new Http2Upstream(socket, isPlain ? 'http' : 'https');
      this.#spare = socket;
      return undefined;
    } catch (error) {
      // The next request tries again.
      this.#http2 = undefined;
      throw error;
    } finally {
      this.#isOpening = false;
      for (const begin of this.#waiting) begin();
      this.#waiting.clear();
    }
  }

  async #connect(protocols: readonly Protocol[], signal: AbortSignal): Promise<UpstreamSocket> {
    const found = await connectUpstream(this.#connection, { roots: this.#roots, protocols }, signal);
    this.#sockets.add(found.socket);
    found.socket.once('close', () => this.#sockets.delete(found.socket));
    if (this.#gone.signal.aborted) found.socket.destroy();
    return found;
  }
}

/** Whoever waits for it hears it. */
function ignore(): void {}
