/**
 * What of a message's head passes between a browser and a sandbox's port. Both sides are parsed by Node and written anew: no
 * byte of a head is handed on unread, and the framing of each side is its own.
 *
 * Lists are flat as in `rawHeaders`: name, value, name, value.
 */
import type { IncomingMessage } from 'node:http';

type Flat = readonly string[];

/** Of one connection (RFC 9110 7.6.1), and what both sides say for themselves. */
const ofConnection = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Said by us: the sandbox may believe them as far as it believes its own visitors. */
const ofProxies = new Set([
  'expect',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-proto',
]);

/**
 * What would reach beyond the answer's own origin: the cookies of the whole domain (`Clear-Site-Data`), where the browser
 * connects to the next time (`Alt-Svc`).
 */
const beyondOrigin = new Set(['alt-svc', 'clear-site-data']);

/** Names of the cookie that holds a token; the second one can't be set for a whole domain, and wants TLS. */
export const cookieNames = ['squash_preview', '__Host-squash_preview'] as const;
/** A token for clients that need `Authorization` for the program in the sandbox. */
export const tokenHeader = 'squash-preview-token';

export interface ForwardedBy {
  readonly address: string | undefined;
  readonly scheme: 'http' | 'https';
  /** Whether an `Authorization` is the daemon's: no sandbox gets it. */
  readonly isCredential: (authorization: string) => boolean;
  /** The protocol of an upgrade that is handed on. */
  readonly upgrade?: string;
}

/** The head for the sandbox, without anything that would prove to us who asks. */
export function requestHeaders(incoming: IncomingMessage, by: ForwardedBy): string[] {
  const dropped = namedByConnection(incoming.headers.connection);
  const headers: string[] = [];
  for (const [name, value] of pairs(incoming.rawHeaders)) {
    const key = name.toLowerCase();
    if (ofConnection.has(key) || ofProxies.has(key) || key === tokenHeader) continue;
    // Without its length a body would stand bare behind the head, as a request of its own.
    if (dropped.has(key) && key !== 'content-length' && key !== 'host') continue;
    if (key === 'authorization' && by.isCredential(value)) continue;
    const kept = key === 'cookie' ? withoutOurs(value) : value;
    if (kept !== '') headers.push(name, kept);
  }
  const from = incoming.headers['x-forwarded-for'];
  const address = by.address ?? 'unknown';
  headers.push('X-Forwarded-For', from === undefined ? address : `${String(from)}, ${address}`);
  headers.push('X-Forwarded-Host', incoming.headers.host ?? '', 'X-Forwarded-Proto', by.scheme);
  if (by.upgrade !== undefined) headers.push('Connection', 'Upgrade', 'Upgrade', by.upgrade);
  else headers.push(...framing(incoming));
  return headers;
}

/** A body is of the length that was said, in chunks, or not there. */
function framing(incoming: IncomingMessage): Flat {
  if (incoming.headers['transfer-encoding'] !== undefined) return ['Transfer-Encoding', 'chunked'];
  const isBodyless = ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'].includes(incoming.method ?? '');
  return incoming.headers['content-length'] === undefined && !isBodyless ? ['Content-Length', '0'] : [];
}

/** The head for the browser. Cookies are of the host that set them, and ours are nobody's to set. */
export function answerHeaders(answer: IncomingMessage, upgrade?: string): string[] {
  const dropped = namedByConnection(answer.headers.connection);
  const headers: string[] = [];
  for (const [name, value] of pairs(answer.rawHeaders)) {
    const key = name.toLowerCase();
    if (ofConnection.has(key) || beyondOrigin.has(key) || dropped.has(key)) continue;
    const kept = key === 'set-cookie' ? hostOnly(value) : value;
    if (kept !== undefined) headers.push(name, kept);
  }
  if (upgrade !== undefined) headers.push('Connection', 'Upgrade', 'Upgrade', upgrade);
  return headers;
}

/** All values of our cookies, in the request's order: another preview of the domain may have put some among them. */
export function tokenCookies(cookie: string | undefined): readonly string[] {
  return cookiesOf(cookie ?? '').flatMap((pair) => (isOurs(pair) ? [pair.slice(pair.indexOf('=') + 1)] : []));
}

function withoutOurs(cookie: string): string {
  return cookiesOf(cookie)
    .filter((pair) => !isOurs(pair))
    .join('; ');
}

function cookiesOf(cookie: string): readonly string[] {
  return cookie
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair !== '');
}

function isOurs(pair: string): boolean {
  const [name = ''] = pair.split('=', 1);
  return cookieNames.some((ours) => ours.toLowerCase() === name.trim().toLowerCase());
}

/** Undefined where it is not to be set at all. */
function hostOnly(setCookie: string): string | undefined {
  const [pair = '', ...attributes] = setCookie.split(';');
  if (isOurs(pair)) return undefined;
  return [pair, ...attributes.filter((each) => !/^\s*domain\s*(=|$)/i.test(each))].join(';');
}

function namedByConnection(connection: string | undefined): ReadonlySet<string> {
  return new Set((connection ?? '').split(',').map((name) => name.trim().toLowerCase()));
}

function* pairs(flat: Flat): Generator<readonly [string, string]> {
  for (let i = 0; i + 1 < flat.length; i += 2) yield [flat[i] ?? '', flat[i + 1] ?? ''];
}
