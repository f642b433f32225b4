/**
 * Signed links: the token comes in the query once, moves into a cookie of this one host, and is in no address any more.
 */
import type { ServerResponse } from 'node:http';
import { cookieNames } from './headers.ts';

/** In the query of a signed link. */
export const tokenParameter = 'squash_token';

export interface Link {
  readonly token: string;
  /** Since 1970. */
  readonly expiresS: number;
}

/** The target without our parameter, and what stood in it. */
export function withoutTokens(url: string): { readonly target: string; readonly tokens: readonly string[] } {
  const cut = url.indexOf('?');
  if (cut === -1) return { target: url, tokens: [] };
  const parts = url.slice(cut + 1).split('&');
  const beginning = `${tokenParameter}=`;
  const tokens = parts.filter((part) => part.startsWith(beginning));
  if (tokens.length === 0) return { target: url, tokens };
  const query = parts.filter((part) => !part.startsWith(beginning)).join('&');
  return {
    target: url.slice(0, cut) + (query === '' ? '' : `?${query}`),
    tokens: tokens.map((part) => part.slice(beginning.length)),
  };
}

/** To the same place without the token: it is in no history, no log of the program's and no `Referer`. */
export function redirect(
  outgoing: ServerResponse,
  link: Link & { readonly target: string; readonly scheme: 'http' | 'https'; readonly nowS: number },
): void {
  const { token, expiresS, target, scheme, nowS } = link;
  const isSafe = scheme === 'https';
  const name = cookieNames[isSafe ? 1 : 0];
  const attributes = `Path=/; HttpOnly; SameSite=Lax; Max-Age=${expiresS - nowS}${isSafe ? '; Secure' : ''}`;
  outgoing.writeHead(303, {
    // Two slashes at the beginning would name another host.
    location: /^\/[/\\]/.test(target) ? `/.${target}` : target,
    'set-cookie': `${name}=${token}; ${attributes}`,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'content-length': 0,
  });
  outgoing.end();
}
