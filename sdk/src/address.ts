/** How a program names a daemon, and how messages do. */
import { badRequest } from './errors.ts';

export type Address =
  | { readonly kind: 'unix'; readonly path: string }
  /** Origin and path before the API's own, for a daemon behind a reverse proxy; without a slash at the end. */
  | { readonly kind: 'tcp'; readonly base: string };

export function parseAddress(text: string, source: string): Address {
  if (text.startsWith('unix:')) {
    const path = text.replace(/^unix:(\/\/)?/, '');
    if (!path.startsWith('/'))
      throw badRequest(`${source} names no absolute path of a Unix socket: "${text}"`);
    return { kind: 'unix', path };
  }
  // In a page an address may be a path of its own host.
  const page = (globalThis as { readonly location?: { readonly href: string } }).location?.href;
  let url: URL;
  try {
    url = new URL(text, page);
  } catch {
    throw badRequest(`${source} is no http, https or unix address: "${text}"`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw badRequest(`${source} is no http, https or unix address: "${text}"`);
  if (url.username !== '' || url.search !== '' || url.hash !== '')
    throw badRequest(`${source} takes no user, query or fragment: the token is an option of its own`);
  return { kind: 'tcp', base: `${url.origin}${url.pathname.replace(/\/+$/, '')}` };
}

/** For messages: what the reader could have typed. */
export function describeAddress(address: Address): string {
  return address.kind === 'unix' ? `unix:${address.path}` : address.base;
}
