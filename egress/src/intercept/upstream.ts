/**
 * The server's side of one program's connection: connected at the first request, spoken to in what the program speaks
 * where the server can, never shared with another connection, let alone another sandbox.
 */
import type { Duplex } from 'node:stream';
import type { SecureContext } from 'node:tls';
import type { InterceptedConnection } from '../ports.ts';
import { interceptLimits } from './limits.ts';
import type { OutgoingRequest, Upstream, UpstreamExchange } from './message.ts';
import { Http1Upstream } from './upstream-http1.ts';
import { Http2Upstream } from './upstream-http2.ts';
import { connectUpstream, type Protocol, type UpstreamSocket } from './upstream-socket.ts';

export class UpstreamOfConnection implements Upstream {
  readonly #connection: InterceptedConnection;
  readonly #roots: SecureContext;
  readonly #front: Protocol;
  /** Every connection that was opened, so that all end with the program's. */
  readonly #sockets = new Set<Duplex>();
  #http1: Http1Upstream | undefined;
  #http2: Promise<Http2Upstream | undefined> | undefined;
  /** Found to speak HTTP/1.1 where HTTP/2 was offered: for the first request of `#http1`. */
  #spare: Duplex | undefined;
  #isOpen = true;

  /** @param front what the program speaks */
  constructor(connection: InterceptedConnection, roots: SecureContext, front: Protocol) {
    this.#connection = connection;
    this.#roots = roots;
    this.#front = front;
  }

  async send(outgoing: OutgoingRequest): Promise<UpstreamExchange> {
    if (this.#front === 'h2') {
      const session = await this.#session();
      if (session !== undefined) return session.send(outgoing);
    }
    this.#http1 ??= new Http1Upstream(
      this.connectHttp1,
      this.#front === 'h2' ? interceptLimits.http1ConnectionsMax : 1,
    );
    return this.#http1.send(outgoing);
  }

  /** A connection of its own that speaks HTTP/1.1. */
  readonly connectHttp1 = async (): Promise<Duplex> => {
    const spare = this.#spare;
    this.#spare = undefined;
    if (spare !== undefined && !spare.destroyed) return spare;
    return (await this.#connect(['http/1.1'])).socket;
  };

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOpen = false;
    await this.#http1?.[Symbol.asyncDispose]();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** The session, or undefined where the server speaks HTTP/1.1 only. */
  async #session(): Promise<Http2Upstream | undefined> {
    const present = this.#http2;
    if (present !== undefined) {
      const session = await present;
      if (session?.isOver !== true) return session;
    }
    // Others may have seen the same end, and one of them has made the next already.
    if (this.#http2 === present) this.#http2 = this.#open();
    return this.#http2;
  }

  async #open(): Promise<Http2Upstream | undefined> {
    const isPlain = this.#connection.protocol === 'http';
    try {
      const { socket, protocol } = await this.#connect(isPlain ? ['h2'] : ['h2', 'http/1.1']);
      if (protocol === 'h2') return new Http2Upstream(socket, isPlain ? 'http' : 'https');
      this.#spare = socket;
      return undefined;
    } catch (error) {
      // The next request tries again.
      this.#http2 = undefined;
      throw error;
    }
  }

  async #connect(protocols: readonly Protocol[]): Promise<UpstreamSocket> {
    const found = await connectUpstream(this.#connection, this.#roots, protocols);
    this.#sockets.add(found.socket);
    found.socket.once('close', () => this.#sockets.delete(found.socket));
    if (!this.#isOpen) found.socket.destroy();
    return found;
  }
}
