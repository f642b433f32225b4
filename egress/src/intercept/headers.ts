/**
 * Flat header lists: finding, taking out, and what must not go further than this hop (RFC 9110, 7.6.1).
 */
import type { HeaderList } from './message.ts';

/** About this hop's connection, never about the message. `Trailer` only announces, and Node checks it too strictly. */
const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authorization',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
]);

/** What a message could not be read without: naming these in `Connection` takes them away from nobody. */
const essential: ReadonlySet<string> = new Set(['content-length', 'content-encoding', 'content-type']);

export function* fieldsOf(list: HeaderList): Generator<readonly [name: string, value: string]> {
  for (let at = 0; at + 1 < list.length; at += 2) yield [list[at] ?? '', list[at + 1] ?? ''];
}

/** Values of every field of this name (lower case), in order. */
export function valuesOf(list: HeaderList, wanted: string): string[] {
  const values: string[] = [];
  // Asked often, of lists that a program may make long: most names differ in length already.
  for (let at = 0; at + 1 < list.length; at += 2) {
    const name = list[at] ?? '';
    if (name.length === wanted.length && name.toLowerCase() === wanted) values.push(list[at + 1] ?? '');
  }
  return values;
}

/** All values of this name (lower case) as one, joined by commas; empty where there is none. */
export function valueOf(list: HeaderList, wanted: string): string {
  return valuesOf(list, wanted).join(', ');
}

/** @param names in lower case */
export function without(list: HeaderList, ...names: readonly string[]): string[] {
  return pick(list, (name) => !names.includes(name));
}

export function pick(list: HeaderList, isKept: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < list.length; at += 2) {
    const name = list[at] ?? '';
    if (isKept(name.toLowerCase())) kept.push(name, list[at + 1] ?? '');
  }
  return kept;
}

/** What concerns more than one hop. Pseudo-headers and `Host` are left out, `TE: trailers` stays. */
export function endToEnd(list: HeaderList): string[] {
  const named = new Set(tokens(valueOf(list, 'connection')));
  const kept = pick(
    list,
    (name) =>
      !hopByHop.has(name) &&
      !name.startsWith(':') &&
      name !== 'host' &&
      (!named.has(name) || essential.has(name)),
  );
  if (tokens(valueOf(list, 'te')).includes('trailers')) kept.push('te', 'trailers');
  return kept;
}

/** Words of a comma-separated list, lower case. */
export function tokens(value: string): string[] {
  return value
    .split(',')
    .map((word) => word.trim().toLowerCase())
    .filter((word) => word !== '');
}

/** As HTTP/2 wants them: names in lower case, nothing about connections. */
export function forHttp2(list: HeaderList): string[] {
  return pick(list, (name) => name === 'te' || !hopByHop.has(name)).map((text, at) =>
    at % 2 === 0 ? text.toLowerCase() : text,
  );
}

/** As HTTP/1.1 wants them: HTTP/2 splits a cookie header into several, which servers of old do not put together. */
export function forHttp1(list: HeaderList): string[] {
  const cookies = valuesOf(list, 'cookie');
  if (cookies.length < 2) return without(list, 'te');
  return [...without(list, 'te', 'cookie'), 'cookie', cookies.join('; ')];
}
