/**
 * Ranges of addresses in CIDR notation. A range of one family never contains an address of the other; mapped and
 * NAT64 forms are the caller's to translate (`effectiveAddress`).
 */
import { type Address, formatAddress, parseAddress, unmapped } from './address.ts';

export interface Cidr {
  readonly base: Address;
  readonly prefix: number;
}

/** `10.0.0.0/8`, `fd00::/8`, or one address. `undefined` where it is neither, or bits beyond the prefix are set. */
export function parseCidr(text: string): Cidr | undefined {
  const [address = '', length, ...more] = text.split('/');
  const parsed = parseAddress(address);
  if (parsed === undefined || more.length > 0) return undefined;
  if (length === undefined) {
    const base = unmapped(parsed);
    return { base, prefix: base.length * 8 };
  }
  if (!/^(0|[1-9]\d{0,2})$/.test(length)) return undefined;
  const prefix = Number(length);
  if (prefix > parsed.length * 8 || !isZeroBeyond(parsed, prefix)) return undefined;
  const base = unmapped(parsed);
  // A mapped range that begins inside the mapping is a range of IPv4.
  if (base.length !== parsed.length) return prefix < 96 ? undefined : { base, prefix: prefix - 96 };
  return { base, prefix };
}

export function formatCidr({ base, prefix }: Cidr): string {
  return `${formatAddress(base)}/${prefix}`;
}

export function cidrContains({ base, prefix }: Cidr, address: Address): boolean {
  if (address.length !== base.length) return false;
  const whole = prefix >>> 3;
  for (let at = 0; at < whole; at += 1) if (address[at] !== base[at]) return false;
  const mask = (0xff00 >>> (prefix & 7)) & 0xff;
  return mask === 0 || ((address[whole] ?? 0) & mask) === ((base[whole] ?? 0) & mask);
}

function isZeroBeyond(address: Address, prefix: number): boolean {
  return address.every((byte, at) => {
    const kept = Math.min(8, Math.max(0, prefix - at * 8));
    return (byte & (0xff >>> kept)) === 0;
  });
}
