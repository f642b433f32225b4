/**
 * Ports that callers offer to sandboxes, and the connections of programs to them. The daemon keeps an offer by a stream over which it is
 * told of each connection, and takes that over a socket of its own: no way leads from this process to the daemon.
 *
 * What a newcomer would get wrong: the socket is a Unix socket, on which a reset looks like an end. So each side says beside it that
 * it has broken off: `onBroken` to the daemon, `refuse` from it.
 */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { Failure } from '@squash/base/failure';
import { egressLimits as limits } from '../limits.ts';

/** Where programs of a sandbox find a caller. */
export interface CallerPort {
  readonly sandbox: string;
  readonly port: number;
}

export interface CallerFollower {
  /** A program waits. */
  readonly onConnection: (id: string) => void;
  /** It waits no more, or broke off. */
  readonly onBroken: (id: string) => void;
  /** The sandbox is gone. */
  readonly onEnd: () => void;
}

interface Offer extends CallerPort {
  readonly follower: CallerFollower;
}

interface Reached {
  readonly offer: Offer;
  readonly take: (socket: Socket) => void;
  readonly refuse: (code: string) => void;
  socket: Socket | undefined;
}

export class Callers {
  readonly #offers = new Map<string, Offer>();
  /** By id: waiting to be taken, or open. */
  readonly #connections = new Map<string, Reached>();

  /** Why a port can't be offered, as a code. */
  problemOf(at: CallerPort): 'port_offered' | 'offer_limit' | undefined {
    if (this.#offers.has(keyOf(at))) return 'port_offered';
    const those = [...this.#offers.values()].filter(({ sandbox }) => sandbox === at.sandbox);
    return those.length < limits.sandboxOffersMax ? undefined : 'offer_limit';
  }

  /** Of a port without a problem. Disposed: its connections are reset. */
  offer(at: CallerPort, follower: CallerFollower): Disposable {
    const offer = { ...at, follower };
    this.#offers.set(keyOf(at), offer);
    return { [Symbol.dispose]: () => this.#withdraw(offer) };
  }

  /** The caller's end of a new connection, once he has taken it. @throws Failure, whose code the log gets */
  async reach(at: CallerPort, signal: AbortSignal): Promise<Socket> {
    signal.throwIfAborted();
    const offer = this.#offers.get(keyOf(at));
    if (offer === undefined) throw new Failure('caller_not_there', 'nobody offers this port');
    const those = [...this.#connections.values()].filter((one) => one.offer.sandbox === at.sandbox);
    if (those.length >= limits.sandboxOfferedMax) {
      throw new Failure('connection_limit', 'the sandbox has too many connections to callers');
    }
    const id = randomBytes(16).toString('hex');
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    const refuse = (code: string): void => reject(new Failure(code, 'the caller did not take it'));
    this.#connections.set(id, { offer, take: resolve, refuse, socket: undefined });
    const late = setTimeout(() => refuse('caller_late'), limits.offerTakeMs);
    const abort = (): void => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    try {
      offer.follower.onConnection(id);
      return await promise;
    } catch (error) {
      this.#break(id);
      throw error;
    } finally {
      clearTimeout(late);
      signal.removeEventListener('abort', abort);
    }
  }

  /** To be taken? */
  waits(id: string): boolean {
    const reached = this.#connections.get(id);
    return reached !== undefined && reached.socket === undefined;
  }

  /** The daemon's socket for a connection that waits. */
  take(id: string, socket: Socket): void {
    const reached = this.#connections.get(id);
    if (reached === undefined) return void socket.destroy();
    reached.socket = socket;
    // Whoever carries it hears of an error; this is for the time before and after.
    socket.on('error', () => undefined);
    socket.once('close', () => {
      const isWhole = socket.readableEnded && socket.writableFinished;
      if (isWhole) this.#connections.delete(id);
      else this.#break(id);
    });
    reached.take(socket);
  }

  /** The caller has broken off, or does not want it. */
  refuse(id: string): void {
    this.#end(id, 'caller_refused');
  }

  /** The sandbox is gone. */
  forget(sandbox: string): void {
    const those = [...this.#offers.values()].filter((offer) => offer.sandbox === sandbox);
    for (const offer of those) {
      this.#withdraw(offer);
      offer.follower.onEnd();
    }
  }

  #withdraw(offer: Offer): void {
    if (this.#offers.get(keyOf(offer)) === offer) this.#offers.delete(keyOf(offer));
    for (const [id, reached] of this.#connections)
      if (reached.offer === offer) this.#end(id, 'caller_not_there');
  }

  #end(id: string, code: string): void {
    const reached = this.#connections.get(id);
    reached?.refuse(code);
    reached?.socket?.destroy(new Failure('ECONNRESET', 'the caller has broken off'));
  }

  #break(id: string): void {
    const reached = this.#connections.get(id);
    if (reached === undefined || !this.#connections.delete(id)) return;
    const { offer } = reached;
    // Who offers no more hears no more.
    if (this.#offers.get(keyOf(offer)) === offer) offer.follower.onBroken(id);
  }
}

function keyOf({ sandbox, port }: CallerPort): string {
  return `${sandbox} ${port}`;
}
