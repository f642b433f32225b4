/**
 * Connections that have not shown yet that they may ask: how many one peer may hold, and all together.
 *
 * A connection is a newcomer until a request on it has passed the gate. Whoever may ask sends its request at once, so where
 * there are too many the one that has waited longest makes room, and a client behind the same address as a hoard of
 * silent connections still gets in. Where all have only just come, the next one is refused.
 */
import { isIPv6, type Socket } from 'node:net';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { systemClock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { HttpCounters } from './counters.ts';

interface Newcomer {
  readonly peer: string;
  readonly sinceMs: number;
}

export interface NewcomersOptions {
  readonly counters: HttpCounters;
  readonly log: Log;
}

export class Newcomers {
  readonly #options: NewcomersOptions;
  /** Oldest first. */
  readonly #waiting = new Map<Socket, Newcomer>();
  readonly #ofPeer = new Map<string, number>();
  #toldMs = Number.NEGATIVE_INFINITY;

  constructor(options: NewcomersOptions) {
    this.#options = options;
  }

  /** Undefined where it may stay; else why not, and nothing is remembered of it. */
  take(socket: Socket): AppError | undefined {
    const peer = peerOf(socket.remoteAddress);
    const nowMs = systemClock.monoMs();
    const ofPeer = this.#ofPeer.get(peer) ?? 0;
    if (ofPeer >= limits.newcomersPerPeerMax || this.#waiting.size >= limits.newcomersMax) {
      this.#count(peer, nowMs);
      const oldest = this.#oldest(ofPeer >= limits.newcomersPerPeerMax ? peer : undefined);
      if (oldest === undefined || nowMs - oldest[1].sinceMs < limits.newcomerGraceMs) return refusal();
      this.pass(oldest[0]);
      oldest[0].destroy();
    }
    this.#waiting.set(socket, { peer, sinceMs: nowMs });
    this.#ofPeer.set(peer, (this.#ofPeer.get(peer) ?? 0) + 1);
    socket.once('close', () => this.pass(socket));
    return undefined;
  }

  /** It is a newcomer no more: a request has passed, or it is closed. Idempotent. */
  pass(socket: Socket): void {
    const known = this.#waiting.get(socket);
    if (known === undefined) return;
    this.#waiting.delete(socket);
    const left = (this.#ofPeer.get(known.peer) ?? 1) - 1;
    if (left === 0) this.#ofPeer.delete(known.peer);
    else this.#ofPeer.set(known.peer, left);
  }

  /** @param peer undefined: of all */
  #oldest(peer: string | undefined): readonly [Socket, Newcomer] | undefined {
    for (const entry of this.#waiting) if (peer === undefined || entry[1].peer === peer) return entry;
    return undefined;
  }

  /** A line a minute: whoever can open connections without end could fill the disk with lines. */
  #count(peer: string, nowMs: number): void {
    const { counters, log } = this.#options;
    counters.refusedConnections += 1;
    if (nowMs - this.#toldMs < limits.newcomersToldMs) return;
    this.#toldMs = nowMs;
    log.warn('http.crowded', {
      peer,
      connections: this.#waiting.size,
      refused: counters.refusedConnections,
      remedy: 'connections that send no request are closed to make room; find out who opens them',
    });
  }
}

function refusal(): AppError {
  return new AppError(
    'connection_limit',
    `${limits.newcomersPerPeerMax} connections from this address have sent no request yet: close some, or try again later`,
  );
}

/** What one machine can have many addresses of counts as one: all of 127.0.0.0/8, and the 64 bits of an IPv6 network. */
export function peerOf(address: string | undefined): string {
  if (address === undefined) return 'unix';
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '').replace(/%.*$/, '');
  if (plain.startsWith('127.')) return 'loopback';
  if (!isIPv6(plain)) return plain;
  const [head = '', tail] = plain.split('::');
  const front = head.split(':').filter((group) => group !== '');
  const back = (tail ?? '').split(':').filter((group) => group !== '');
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0');
  return `${[...front, ...zeros, ...back].slice(0, 4).join(':')}::/64`;
}
