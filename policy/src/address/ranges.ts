/**
 * What kind of place an address is: `public`, or one of the ranges that lead to the host, its network, its cloud's
 * metadata, or nowhere. From IANA's special-purpose registries and what cloud vendors document.
 *
 * The guard is asked for every address that is about to be dialled, after resolution. IPv6 is judged by what is
 * allowed: only 2000::/3 is unicast of the Internet, everything else is refused whether or not it has a name today.
 */
import { type Address, bitsAhead, effectiveAddress } from './address.ts';
import { type Cidr, cidrContains, parseCidr } from './cidr.ts';

export type AddressKind =
  | 'public'
  | 'loopback'
  | 'private'
  | 'link_local'
  | 'metadata'
  | 'shared'
  | 'multicast'
  | 'broadcast'
  | 'documentation'
  | 'benchmarking'
  | 'tunnel'
  | 'reserved';

export interface AddressClass {
  readonly kind: AddressKind;
  /** The range that decided, in CIDR notation; `undefined` for a public address. */
  readonly range: string | undefined;
  /**
   * Its length. A range that holds the address and is at least this long lies inside: whoever wrote it meant this kind of
   * place. 0 for a public address.
   */
  readonly prefix: number;
}

/** The first that contains the address counts. */
const special: readonly (readonly [range: string, kind: AddressKind])[] = [
  ['169.254.169.254', 'metadata'], // AWS, Azure, Google, OpenStack and most others
  ['169.254.170.2', 'metadata'], // credentials of ECS tasks
  ['169.254.170.23', 'metadata'], // credentials of EKS pods
  ['100.100.100.200', 'metadata'], // Alibaba
  ['168.63.129.16', 'metadata'], // Azure's host agent: a public number that never leaves the machine's host
  ['192.0.0.192', 'metadata'], // Oracle
  ['0.0.0.0', 'loopback'], // Linux connects it to the host itself
  ['0.0.0.0/8', 'reserved'], // "this network"
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'shared'], // carrier-grade NAT, also used by VPNs and by clouds inside
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'link_local'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'reserved'],
  ['192.0.2.0/24', 'documentation'],
  ['192.88.99.0/24', 'tunnel'], // relays of 6to4, withdrawn
  ['192.168.0.0/16', 'private'],
  ['198.18.0.0/15', 'benchmarking'], // where sandboxes have their virtual addresses
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['255.255.255.255', 'broadcast'],
  ['240.0.0.0/4', 'reserved'],
  ['::1', 'loopback'],
  ['::', 'loopback'], // as 0.0.0.0
  ['::/96', 'reserved'], // also the old "IPv4-compatible" form
  ['64:ff9b:1::/48', 'tunnel'], // NAT64 of the local network: what is behind it is not known
  ['100::/64', 'reserved'], // discard
  ['2001:db8::/32', 'documentation'],
  ['2001:2::/48', 'benchmarking'],
  ['2001::/32', 'tunnel'], // Teredo, with an IPv4 address inside
  ['2001::/23', 'reserved'], // protocol assignments
  ['2002::/16', 'tunnel'], // 6to4, with an IPv4 address inside
  ['3fff::/20', 'documentation'],
  ['fd00:ec2::254', 'metadata'], // AWS
  ['fd00:ec2::23', 'metadata'], // EKS
  ['fd20:ce::254', 'metadata'], // Google
  ['fc00::/7', 'private'],
  ['fe80::/10', 'link_local'],
  ['fec0::/10', 'private'], // site-local, withdrawn
  ['ff00::/8', 'multicast'],
];

interface Row {
  readonly cidr: Cidr;
  readonly answer: AddressClass;
}

const rowsByLength = new Map<number, readonly Row[]>();

/** Read when the first address of that length is judged: a start has none, and Node's test for IPv6 takes 7 ms when it is first used. */
function rowsOf(length: number): readonly Row[] {
  let rows = rowsByLength.get(length);
  if (rows === undefined) {
    rows = special.filter(([range]) => range.includes(':') === length > 4).map(rowOf);
    rowsByLength.set(length, rows);
  }
  return rows;
}

function rowOf([range, kind]: (typeof special)[number]): Row {
  const cidr = parseCidr(range);
  if (cidr === undefined) throw new TypeError(`"${range}" is no range`);
  return { cidr, answer: { kind, range, prefix: cidr.prefix } };
}

const internet: AddressClass = { kind: 'public', range: undefined, prefix: 0 };
const elsewhere: AddressClass = { kind: 'reserved', range: 'outside 2000::/3', prefix: 3 };

/**
 * Whether one of the ranges names the kind of place that this address is of: it holds the address, in the form given or
 * in the one that is reached, and lies inside that kind (`prefixMin`: the kind's length).
 */
export function isNamedBy(ranges: readonly Cidr[], address: Address, prefixMin: number): boolean {
  const effective = effectiveAddress(address);
  const ahead = bitsAhead(address);
  return ranges.some(
    (range) =>
      (range.prefix >= prefixMin && cidrContains(range, effective)) ||
      (range.prefix >= ahead + prefixMin && cidrContains(range, address)),
  );
}

/** Mapped and NAT64 forms are judged as the IPv4 address they reach. */
export function classifyAddress(address: Address): AddressClass {
  const effective = effectiveAddress(address);
  const row = rowsOf(effective.length).find(({ cidr }) => cidrContains(cidr, effective));
  if (row !== undefined) return row.answer;
  if (effective.length === 4) return internet;
  return ((effective[0] ?? 0) & 0xe0) === 0x20 ? internet : elsewhere;
}
