/**
 * Proxies that an operator lets sandboxes go out through: `egress-upstreams.json`, names and URLs.
 *
 * What a newcomer would get wrong: the schemes differ in who looks names up, as curl has it. With `socks5://` that is
 * this host, and every address is judged before the proxy gets it. With `http://` and `socks5h://` the proxy gets
 * the name, so no address can be judged here. The URL holds a password: no message repeats it.
 */
import { z } from 'zod';

/** Of every sandbox whose create names none. */
export const defaultUpstream = 'default';

export interface UpstreamProxy {
  readonly protocol: 'http' | 'socks5';
  /** The proxy looks names up; else it gets addresses. */
  readonly resolvesNames: boolean;
  readonly host: string;
  readonly port: number;
  readonly login: { readonly name: string; readonly password: string } | undefined;
}

const upstreamLimits = { upstreamsMax: 64, urlCharsMax: 2_048, loginBytesMax: 255 } as const;

export const upstreamNameSchema = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, {
  error: 'upstream: small letters, digits and "-", 63 at most',
});

const urlSchema = z
  .string()
  .max(upstreamLimits.urlCharsMax)
  .refine((text) => parseUpstream(text) !== undefined, {
    error:
      'a proxy is "http://HOST:PORT", "socks5://HOST:PORT" or "socks5h://HOST:PORT", with NAME:PASSWORD@ or without',
  });

/** `egress-upstreams.json`, whole. */
export const upstreamsSchema = z
  .record(upstreamNameSchema, urlSchema)
  .refine((all) => Object.keys(all).length <= upstreamLimits.upstreamsMax, {
    error: `${upstreamLimits.upstreamsMax} proxies at most`,
  });
export type Upstreams = z.infer<typeof upstreamsSchema>;

/** Which of them a sandbox goes through; undefined: none. One that is not there (any more) is still its. */
export function upstreamOf(name: string | null, all: Upstreams): string | undefined {
  if (name !== null) return name;
  return Object.hasOwn(all, defaultUpstream) ? defaultUpstream : undefined;
}

export function parseUpstream(text: string): UpstreamProxy | undefined {
  const [, scheme = '', rest = ''] = /^(http|socks5|socks5h):\/\/(.+)$/.exec(text) ?? [];
  // Of a scheme that has a port of its own `URL` leaves that out.
  const url = URL.parse(`proxy://${rest}`);
  if (url === null || url.port === '' || url.hostname === '') return undefined;
  if (!/^\/?$/.test(url.pathname) || url.search !== '' || url.hash !== '') return undefined;
  const login = loginOf(url);
  if (login === null) return undefined;
  return {
    protocol: scheme === 'http' ? 'http' : 'socks5',
    resolvesNames: scheme !== 'socks5',
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port),
    login,
  };
}

/** Null: none that a proxy could be told. */
function loginOf({ username, password }: URL): UpstreamProxy['login'] | null {
  if (username === '' && password === '') return undefined;
  try {
    const login = { name: decodeURIComponent(username), password: decodeURIComponent(password) };
    const isFit = (word: string): boolean =>
      Buffer.byteLength(word) >= 1 && Buffer.byteLength(word) <= upstreamLimits.loginBytesMax;
    return isFit(login.name) && isFit(login.password) && !login.name.includes(':') ? login : null;
  } catch {
    return null;
  }
}
