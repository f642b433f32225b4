/**
 * Addresses as bytes: 4 for IPv4, 16 for IPv6, in network order, as the relay and the kernel have them.
 *
 * What a newcomer would get wrong: one destination has several spellings. `::ffff:10.0.0.1` and
 * `64:ff9b::10.0.0.1` both reach 10.0.0.1, so what is judged is `effectiveAddress`, never the text. And only full
 * literals are taken: `127.1`, `0x7f.1` and `2130706433` are names here, and names without a legal form.
 */
import { isIPv4, isIPv6 } from 'node:net';

export type Address = Uint8Array;

/** `undefined` where the text is no address. Scoped literals (`fe80::1%eth0`) are none: a scope is the host's own. */
export function parseAddress(text: string): Address | undefined {
  if (isIPv4(text)) return Uint8Array.from(text.split('.'), Number);
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const [head = '', tail] = text.split('::');
  const front = groups(head);
  const back = tail === undefined ? [] : groups(tail);
  const address = new Uint8Array(16);
  address.set(front);
  address.set(back, 16 - back.length);
  return address;
}

function groups(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (group.includes('.')) return group.split('.').map(Number);
    const value = Number.parseInt(group, 16);
    return [value >>> 8, value & 0xff];
  });
}

/** Canonical text (RFC 5952), with mapped IPv4 as IPv4: two equal destinations are equal texts. */
export function formatAddress(address: Address): string {
  const plain = unmapped(address);
  if (plain.length === 4) return plain.join('.');
  const words = Array.from({ length: 8 }, (_, at) => ((plain[2 * at] ?? 0) << 8) | (plain[2 * at + 1] ?? 0));
  const gap = longestZeros(words);
  const text = (part: readonly number[]): string => part.map((word) => word.toString(16)).join(':');
  if (gap === undefined) return text(words);
  return `${text(words.slice(0, gap.at))}::${text(words.slice(gap.at + gap.length))}`;
}

function longestZeros(words: readonly number[]): { at: number; length: number } | undefined {
  let best: { at: number; length: number } | undefined;
  for (let at = 0; at < words.length; at += 1) {
    let length = 0;
    while (words[at + length] === 0) length += 1;
    if (length > 1 && length > (best?.length ?? 1)) best = { at, length };
    at += length;
  }
  return best;
}

const mappedPrefix = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff);
const nat64Prefix = Uint8Array.of(0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0);

/** `::ffff:a.b.c.d` as a.b.c.d: the kernel connects to the same place. */
export function unmapped(address: Address): Address {
  return startsWith(address, mappedPrefix) ? address.subarray(12) : address;
}

/** The address that is reached in the end: mapped and NAT64 (64:ff9b::/96) forms as the IPv4 address they stand for. */
export function effectiveAddress(address: Address): Address {
  if (startsWith(address, mappedPrefix) || startsWith(address, nat64Prefix)) return address.subarray(12);
  return address;
}

/** How much longer a range is when it is written in the form given than in the one that is reached. */
export function bitsAhead(address: Address): number {
  return (address.length - effectiveAddress(address).length) * 8;
}

function startsWith(address: Address, prefix: Uint8Array): boolean {
  return address.length === 16 && prefix.every((byte, at) => address[at] === byte);
}
