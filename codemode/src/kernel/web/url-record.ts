/** Part of the guest kernel: a URL as its parts, by the URL standard, and the parts as text. */
import { parseHost } from './host.ts';
import { percentEncode } from './percent.ts';

export interface UrlRecord {
  scheme: string;
  username: string;
  password: string;
  host: string | undefined;
  port: number | undefined;
  /** A text where the URL has no hierarchy, as in `mailto:`. */
  path: string[] | string;
  query: string | undefined;
  fragment: string | undefined;
}

export function defaultPort(scheme: string): number | undefined {
  switch (scheme) {
    case 'http':
    case 'ws':
      return 80;
    case 'https':
    case 'wss':
      return 443;
    case 'ftp':
      return 21;
    default:
      return undefined;
  }
}

export function isSpecialScheme(scheme: string): boolean {
  return scheme === 'file' || defaultPort(scheme) !== undefined;
}

/** Undefined where it is no URL. */
export function parseUrl(given: string, base: UrlRecord | undefined): UrlRecord | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what the standard takes off
  const text = trimControls(given.toWellFormed()).replace(/[\t\n\r]/g, '');
  const colon = /^[A-Za-z][A-Za-z\d+.-]*:/.exec(text)?.[0].length ?? 0;
  const scheme = colon > 0 ? text.slice(0, colon - 1).toLowerCase() : (base?.scheme ?? '');
  const [beforeFragment, fragment] = splitAt(text.slice(colon), '#');
  const [body, query] = splitAt(beforeFragment, '?');
  const isSpecial = isSpecialScheme(scheme);
  const url: UrlRecord = {
    scheme,
    username: '',
    password: '',
    host: undefined,
    port: undefined,
    path: [],
    query: query === undefined ? undefined : percentEncode(query, isSpecial ? 'special-query' : 'query'),
    fragment: fragment === undefined ? undefined : percentEncode(fragment, 'fragment'),
  };
  if (colon === 0) {
    if (base === undefined) return undefined;
    if (typeof base.path === 'string')
      return body === '' && query === undefined && fragment !== undefined
        ? { ...base, fragment: url.fragment }
        : undefined;
    return scheme === 'file' ? parseFile(url, body, base) : parseRelative(url, body, base);
  }
  if (scheme === 'file') return parseFile(url, body, base?.scheme === 'file' ? base : undefined);
  if (isSpecial)
    return base?.scheme === scheme && !body.startsWith('//')
      ? parseRelative(url, body, base)
      : parseAuthority(url, body.replace(/^[/\\]+/, ''));
  if (body.startsWith('//')) return parseAuthority(url, body.slice(2));
  if (body.startsWith('/')) return parsePath(url, body);
  const isFollowed = query !== undefined || fragment !== undefined;
  const path = percentEncode(body, 'control');
  // It would be taken off where what follows it were taken away.
  url.path = isFollowed && path.endsWith(' ') ? `${path.slice(0, -1)}%20` : path;
  return url;
}

/** By a loop: an expression for the end of a text takes the square of its length where it is all blanks. */
export function trimControls(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && text.charCodeAt(start) <= 0x20) start += 1;
  while (end > start && text.charCodeAt(end - 1) <= 0x20) end -= 1;
  return text.slice(start, end);
}

export function splitAt(text: string, mark: string): readonly [string, string | undefined] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

export function isSlash(character: string | undefined, scheme: string): boolean {
  return character === '/' || (character === '\\' && isSpecialScheme(scheme));
}

export function parseRelative(url: UrlRecord, body: string, base: UrlRecord): UrlRecord | undefined {
  if (isSlash(body[0], url.scheme) && isSlash(body[1], url.scheme))
    return parseAuthority(url, isSpecialScheme(url.scheme) ? body.replace(/^[/\\]+/, '') : body.slice(2));
  url.username = base.username;
  url.password = base.password;
  url.host = base.host;
  url.port = base.port;
  return isSlash(body[0], url.scheme) ? parsePath(url, body) : parseBeside(url, body, base);
}

/** The base's path with its last part replaced; the base's own where there is nothing to put there. */
export function parseBeside(url: UrlRecord, body: string, base: UrlRecord): UrlRecord {
  url.path = typeof base.path === 'string' ? [] : [...base.path];
  if (body === '') {
    if (url.query === undefined) url.query = base.query;
    return url;
  }
  if (url.scheme === 'file' && startsWithDrive(body)) url.path = [];
  else shortenPath(url);
  return parsePath(url, body);
}

export function parseAuthority(url: UrlRecord, body: string): UrlRecord | undefined {
  let end = 0;
  while (end < body.length && !isSlash(body[end], url.scheme)) end += 1;
  const authority = body.slice(0, end);
  const at = authority.lastIndexOf('@');
  if (at >= 0) {
    const [username, password = ''] = splitAt(authority.slice(0, at), ':');
    url.username = percentEncode(username, 'userinfo');
    url.password = percentEncode(password, 'userinfo');
  }
  const place = authority.slice(at + 1);
  if (place === '' && at >= 0) return undefined;
  if (!parsePlace(url, place)) return undefined;
  return parsePath(url, body.slice(end));
}

/** Host and port. */
export function parsePlace(url: UrlRecord, place: string): boolean {
  const [, name = '', digits] = /^(\[[^\]]*\]?|[^:]*)(?::(.*))?$/s.exec(place) ?? [];
  const isSpecial = isSpecialScheme(url.scheme);
  if (name === '' && (isSpecial || digits !== undefined)) return false;
  // What stands behind a bracket is neither the host nor its port.
  if (name.length + (digits === undefined ? 0 : digits.length + 1) !== place.length) return false;
  const host = name === '' ? '' : parseHost(name, isSpecial);
  if (host === undefined || !parsePort(url, digits ?? '')) return false;
  url.host = host;
  return true;
}

export function parsePort(url: UrlRecord, digits: string): boolean {
  if (!/^\d*$/.test(digits)) return false;
  const port = Number(digits);
  if (port > 65_535) return false;
  url.port = digits === '' || port === defaultPort(url.scheme) ? undefined : port;
  return true;
}

export function isDrive(text: string | undefined): boolean {
  return text !== undefined && /^[A-Za-z][:|]$/.test(text);
}

export function startsWithDrive(text: string): boolean {
  return isDrive(text.slice(0, 2)) && (text.length === 2 || /[/\\]/.test(text[2] ?? ''));
}

export function parseFile(url: UrlRecord, body: string, base: UrlRecord | undefined): UrlRecord | undefined {
  url.host = '';
  const [first, second] = [isSlash(body[0], 'file'), isSlash(body[1], 'file')];
  if (first && second) {
    const rest = body.slice(2);
    let end = 0;
    while (end < rest.length && !isSlash(rest[end], 'file')) end += 1;
    if (isDrive(rest.slice(0, end))) return parsePath(url, rest);
    const host = end === 0 ? '' : parseHost(rest.slice(0, end), true);
    if (host === undefined) return undefined;
    url.host = host === 'localhost' ? '' : host;
    return parsePath(url, rest.slice(end));
  }
  if (base === undefined || typeof base.path === 'string') return parsePath(url, body);
  url.host = base.host;
  if (!first) return parseBeside(url, body, base);
  if (!startsWithDrive(body.slice(1)) && isDrive(base.path[0]) && base.path[0]?.[1] === ':')
    url.path = [base.path[0]];
  return parsePath(url, body);
}

export function shortenPath(url: UrlRecord): void {
  const { path } = url;
  if (typeof path === 'string') return;
  if (url.scheme === 'file' && path.length === 1 && /^[A-Za-z]:$/.test(path[0] ?? '')) return;
  path.pop();
}

/** Appends to what is there. */
export function parsePath(url: UrlRecord, body: string): UrlRecord {
  const path = url.path as string[];
  const isSpecial = isSpecialScheme(url.scheme);
  if (body === '' && (!isSpecial || path.length > 0)) return url;
  const parts = (isSlash(body[0], url.scheme) ? body.slice(1) : body).split(isSpecial ? /[/\\]/ : '/');
  for (let at = 0; at < parts.length; at += 1) {
    const part = parts[at] ?? '';
    const isLast = at === parts.length - 1;
    const dots = part.replace(/%2e/gi, '.');
    if (dots === '..') {
      shortenPath(url);
      if (isLast) path.push('');
    } else if (dots === '.') {
      if (isLast) path.push('');
    } else if (url.scheme === 'file' && path.length === 0 && isDrive(part)) path.push(`${part[0]}:`);
    else path.push(percentEncode(part, 'path'));
  }
  return url;
}

export function pathText({ path }: UrlRecord): string {
  return typeof path === 'string' ? path : path.map((part) => `/${part}`).join('');
}

export function placeText({ host = '', port }: UrlRecord): string {
  return port === undefined ? host : `${host}:${port}`;
}

export function urlText(url: UrlRecord): string {
  const { username, password, query, fragment } = url;
  const secret = password === '' ? '' : `:${password}`;
  const credentials = username === '' && password === '' ? '' : `${username}${secret}@`;
  const path = pathText(url);
  // Without a host a path that begins with two slashes would be read as one.
  const authority =
    url.host === undefined
      ? typeof url.path !== 'string' && url.path.length > 1 && url.path[0] === ''
        ? '/.'
        : ''
      : `//${credentials}${placeText(url)}`;
  return `${url.scheme}:${authority}${path}${query === undefined ? '' : `?${query}`}${fragment === undefined ? '' : `#${fragment}`}`;
}
