/**
 * Tickets: a caller's word for one WebSocket or event stream, where no header can be sent. A browser's WebSocket and EventSource
 * can't; a token in an address would be in logs and histories, where a ticket is worth nothing any more.
 *
 * What a ticket opens, its holder opens as the caller who asked for it: at one address, once, within `ticketMs`.
 */
import { createHash, randomBytes } from 'node:crypto';
import { limits } from '@squash/contract/limits';
import type { Caller } from './caller.ts';
import { Places } from './places.ts';

interface Waiting {
  readonly caller: Caller;
  readonly path: string;
  readonly endMs: number;
  readonly release: () => void;
}

export class Tickets {
  /** By digest: what is compared does not depend on how much of a ticket was guessed. */
  readonly #waiting = new Map<string, Waiting>();
  readonly #places = new Places('tickets wait for their use', limits.ticketsMax);
  readonly #monoMs: () => number;
  readonly #holdsKey: (key: string) => boolean;

  /** @param holdsKey whether a key that asked for a ticket holds still */
  constructor(monoMs: () => number, holdsKey: (key: string) => boolean = () => true) {
    this.#monoMs = monoMs;
    this.#holdsKey = holdsKey;
  }

  /** @throws stream_limit */
  issue(caller: Caller, path: string): string {
    this.#expire();
    const release = this.#places.take(caller.owner);
    const ticket = randomBytes(32).toString('base64url');
    const endMs = this.#monoMs() + limits.ticketMs;
    this.#waiting.set(digest(ticket), { caller, path, endMs, release });
    return ticket;
  }

  /** Whose it is; it is used up, also where it was for another address. */
  take(ticket: string, path: string): Caller | undefined {
    const key = digest(ticket);
    const waiting = this.#waiting.get(key);
    this.#waiting.delete(key);
    waiting?.release();
    if (waiting === undefined || waiting.path !== path || waiting.endMs <= this.#monoMs()) return undefined;
    const { caller } = waiting;
    return caller.key === null || this.#holdsKey(caller.key) ? caller : undefined;
  }

  /** The oldest come first. */
  #expire(): void {
    for (const [key, { endMs, release }] of this.#waiting) {
      if (endMs > this.#monoMs()) return;
      this.#waiting.delete(key);
      release();
    }
  }
}

function digest(ticket: string): string {
  return createHash('sha256').update(ticket).digest('hex');
}

/** The ticket in a request's query string. */
export function ticketOf(query: string | undefined): string | undefined {
  return query === undefined ? undefined : (new URLSearchParams(query).get('ticket') ?? undefined);
}
