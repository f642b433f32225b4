/**
 * Who may ask at all: decided from the request's head and whose its connection is, before anything else looks at it,
 * the same for plain requests and WebSockets.
 *
 * What a newcomer would get wrong: a browser on the operator's machine reaches loopback, and a web page can send
 * it requests. Three rules keep pages out, none of which needs a token: the `Host` must be one that no foreign
 * DNS name can stand behind (rebinding), an `Origin` must be our own, and no header ever allows a foreign page to
 * read (no CORS).
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { AppError } from '@squash/contract/errors';
import { operations } from '@squash/contract/operations/table';
import { keyPrefix } from '@squash/contract/key-token';
import type { HeldKey } from '@squash/contract/keys';
import type { Secret } from '@squash/base/secret';
import { anybody, type Caller, callerWith, operator } from './caller.ts';
import type { Tickets } from './tickets.ts';
import type { Peer } from './connection-owner.ts';

/** The keys of this installation; the engine's `Keys` are one. */
export interface KeyRing {
  readonly count: number;
  /** The key that has this token, where it holds. */
  find(token: string): HeldKey | undefined;
}

const noKeys: KeyRing = { count: 0, find: () => undefined };

export interface GateOptions {
  readonly authToken: Secret | undefined;
  readonly keys?: KeyRing;
  /** Lower case, without port; `*.name` stands for all subdomains. */
  readonly allowedHosts: readonly string[];
  readonly tickets?: Pick<Tickets, 'take'>;
}

export interface RequestHead {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /**
   * `unix`: the socket's mode has let only its owner in, and no browser can name it. `ssh`: the gateway of SSH, which is nobody
   * without a token, and may ask who has logged in.
   */
  readonly transport: 'tcp' | 'unix' | 'ssh';
  /** Whose the connection is: asked for where there is no token. */
  readonly peer: Peer;
  /** Instead of a token, where no header can be sent. */
  readonly ticket?: string | undefined;
}

/** The only address without a token, so that load balancers can ask. */
const healthPath = '/cgi-bin/health';
/** What the gateway of SSH asks before anybody has logged in. */
const sshPaths: ReadonlySet<string> = new Set([operations['ssh.offer'].path, operations['ssh.login'].path]);

export class Gate {
  readonly #tokenHash: Buffer | undefined;
  readonly #allowedHosts: readonly string[];
  readonly #keys: KeyRing;
  readonly #tickets: Pick<Tickets, 'take'> | undefined;

  constructor(options: GateOptions) {
    this.#tokenHash = options.authToken === undefined ? undefined : sha256(options.authToken.reveal());
    this.#allowedHosts = options.allowedHosts;
    this.#keys = options.keys ?? noKeys;
    this.#tickets = options.tickets;
  }

  /** Who asks, or why he is refused. */
  check(head: RequestHead): Caller | AppError {
    return this.#checkHost(head) ?? checkOrigin(head.headers) ?? this.#callerOf(head);
  }

  /**
   * Who sent a request that is not for the API, whatever page made it; or why nobody knows. What is no credential of ours may be
   * one of whom it is for.
   */
  senderOf(head: Omit<RequestHead, 'path'>): Caller | AppError {
    const asked = { ...head, path: '/' };
    return this.isCredential(head.headers.authorization ?? '')
      ? this.#callerOf(asked)
      : this.#ofConnection(asked);
  }

  /** Whether this `Authorization` is meant for the daemon, good or not: no sandbox may see it. */
  isCredential(authorization: string): boolean {
    return authorization.includes(keyPrefix) || this.#isToken(bearerOf(authorization));
  }

  /** Whoever asks is told, and need not say who he is. */
  isForAll(path: string): boolean {
    return path === healthPath;
  }

  #checkHost({ headers, transport }: RequestHead): AppError | undefined {
    if (transport !== 'tcp' || headers.host === undefined) return undefined;
    const name = hostName(headers.host);
    if (name !== undefined && this.#isAllowed(name)) return undefined;
    return new AppError(
      'origin_refused',
      `Host "${headers.host.slice(0, 200)}" is refused: use an IP address or localhost, or name it in SQUASH_ALLOWED_HOSTS`,
    );
  }

  #isAllowed(name: string): boolean {
    if (isIP(name) !== 0 || name === 'localhost') return true;
    return this.#allowedHosts.some((allowed) =>
      allowed.startsWith('*.') ? name.endsWith(allowed.slice(1)) : name === allowed,
    );
  }

  #callerOf(head: RequestHead): Caller | AppError {
    const caller =
      this.#knownBy(head.headers.authorization) ?? this.#byTicket(head) ?? this.#ofConnection(head);
    return caller instanceof AppError && this.isForAll(head.path) ? anybody : caller;
  }

  /**
   * By what he has sent; undefined where that says nothing, so that the connection decides. Where there are keys, or a token looks
   * like one, a wrong one is never that: else a program whose key was removed would go on as the operator.
   */
  #knownBy(authorization: string | undefined): Caller | AppError | undefined {
    if (authorization === undefined) return undefined;
    const given = bearerOf(authorization);
    if (this.#isToken(given)) return operator;
    if (given !== undefined) {
      const key = this.#keys.find(given);
      if (key !== undefined) return callerWith(key);
    }
    return this.#keys.count > 0 || authorization.includes(keyPrefix) ? wrongToken() : undefined;
  }

  #byTicket({ path, ticket }: RequestHead): Caller | AppError | undefined {
    if (ticket === undefined) return undefined;
    return this.#tickets?.take(ticket, path) ?? badTicket();
  }

  /** Both are hashed first: the comparison takes the same time whatever the given token's length and content. */
  #isToken(given: string | undefined): boolean {
    return (
      given !== undefined && this.#tokenHash !== undefined && timingSafeEqual(sha256(given), this.#tokenHash)
    );
  }

  #ofConnection({ transport, peer, path }: RequestHead): Caller | AppError {
    if (transport === 'unix') return operator;
    if (transport === 'ssh') return sshPaths.has(path) ? anybody : wrongToken();
    if (this.#tokenHash !== undefined) return wrongToken();
    return peer === 'own' ? operator : new AppError('token_required', whyToken[peer]);
  }
}

function badTicket(): AppError {
  return new AppError(
    'unauthorized',
    'The ticket is wrong, was used before, is too old or for another path: get one by POST /v1/tickets for each connection',
  );
}

function wrongToken(): AppError {
  return new AppError(
    'unauthorized',
    'The bearer token is missing or wrong: send Authorization: Bearer with the value of SQUASH_AUTH_TOKEN, or a key that holds',
  );
}

const bringToken =
  'send a key as Authorization: Bearer, or set SQUASH_AUTH_TOKEN where the daemon is started and send its value';
const whyToken: Readonly<Record<Exclude<Peer, 'own'>, string>> = {
  stranger: `This daemon has no token, so over TCP it serves only the user who started it, and root. Others bring a token: ${bringToken}`,
  unknown: `This daemon has no token, and whose this connection is can not be found out. To use TCP all the same: ${bringToken}`,
};

/** The name in a `Host` header, lower case, without port and brackets. */
export function hostName(host: string): string | undefined {
  const [, bracketed, plain] = /^(?:\[([0-9a-f:.]+)\]|([^[\]:/?#@\\\s]+))(?::\d{1,5})?$/i.exec(host) ?? [];
  return (bracketed ?? plain)?.toLowerCase().replace(/\.$/, '');
}

/**
 * Browsers send `Origin` with every request that changes something, and `Sec-Fetch-Site` with every request;
 * other clients send neither. A page of another port of the same host is "same-site" and still foreign.
 */
function checkOrigin(headers: IncomingHttpHeaders): AppError | undefined {
  const site = headers['sec-fetch-site'];
  const { origin } = headers;
  const isForeign = site === 'cross-site' || site === 'same-site';
  if (!isForeign && (origin === undefined || isOwnOrigin(origin, headers.host))) return undefined;
  return new AppError(
    'origin_refused',
    `A request from the web page "${(origin ?? 'unknown').slice(0, 200)}" is refused: pages of other origins may not use this API`,
  );
}

function isOwnOrigin(origin: string, host: string | undefined): boolean {
  const [, authority] = /^https?:\/\/([^/?#@\\]+)$/i.exec(origin) ?? [];
  return authority !== undefined && host !== undefined && authority.toLowerCase() === host.toLowerCase();
}

function bearerOf(authorization: string): string | undefined {
  return /^bearer +([\x21-\x7e]+) *$/i.exec(authorization)?.[1];
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}
