/**
 * Does a request go where it says? The host that was dialled decides; `Host`, `:authority` and a target written as a whole URL
 * have to name the same one. Else a request that was allowed for one host is served by another that shares its address.
 */
import type { Destination } from '@squash/policy/policy';
import type { RequestHead } from './message.ts';

export type Agreement =
  /** `target` in origin form; `authority` is what the server is told. */
  | { readonly ok: true; readonly target: string; readonly authority: string }
  | { readonly ok: false; readonly problem: string };

/** @param scheme of the connection as the program sees it */
export function agree(head: RequestHead, destination: Destination, scheme: 'http' | 'https'): Agreement {
  const own = ownAuthority(destination, scheme);
  const form = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]*)(.*)$/i.exec(head.target);
  const named = [head.authority, form?.[2]].filter((text) => text !== undefined);
  const other = named.find((text) => !isSame(text, destination));
  if (other !== undefined) {
    return {
      ok: false,
      problem: `the request is for ${JSON.stringify(other.slice(0, 255))}, the connection goes to ${own}`,
    };
  }
  if (form === null) return { ok: true, target: head.target, authority: head.authority ?? own };
  if (form[1]?.toLowerCase() !== scheme) {
    return { ok: false, problem: `the request is for ${form[1]}, the connection is ${scheme}` };
  }
  const rest = form[3] ?? '';
  return { ok: true, target: rest.startsWith('/') ? rest : `/${rest}`, authority: head.authority ?? own };
}

function ownAuthority({ host, address, port }: Destination, scheme: 'http' | 'https'): string {
  const place = host ?? (address?.includes(':') === true ? `[${address}]` : (address ?? ''));
  return port === (scheme === 'https' ? 443 : 80) ? place : `${place}:${port}`;
}

/** A port that is not named is not compared: many clients leave it out. */
function isSame(text: string, { host, address, port }: Destination): boolean {
  const parts = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?$/i.exec(text);
  if (parts === null) return false;
  const [, place = '', named] = parts;
  if (named !== undefined && Number(named) !== port) return false;
  const lower = place.toLowerCase();
  if (host !== undefined) return lower.replace(/\.$/, '') === host;
  return (
    canonicalAddress(lower) ===
    canonicalAddress(address?.includes(':') === true ? `[${address}]` : (address ?? ''))
  );
}

/** The URL parser brings every spelling of an IPv6 literal to one. An IPv4 literal has only one that is taken. */
function canonicalAddress(place: string): string {
  return place.startsWith('[') && URL.canParse(`http://${place}/`)
    ? new URL(`http://${place}/`).hostname
    : place;
}
