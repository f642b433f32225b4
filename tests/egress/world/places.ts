/**
 * The map of the little Internet that the tests of the network live in: which names and addresses there are, and which
 * of them a policy of the tests allows. It exists in a network namespace only, so its addresses can be real ones: public
 * addresses, private ranges and a cloud's metadata service all answer there, without any of them being contacted.
 */

/** What is reached by name. Every name below `allowed.test` is at `front` unless the table says otherwise. */
export const places = {
  front: '5.1.0.1',
  /** One address, many owners: `good.cdn.test` and `evil.cdn.test`. */
  cdn: '5.1.0.9',
  /** Nobody's policy allows it. */
  evil: '5.6.6.6',
  evil6: '2606:6666::6',
  /** The host's own resolver. */
  resolver: '5.5.5.53',
  /** Public resolvers, which a sandbox has no business with. */
  otherResolver: '8.8.8.8',
  private10: '10.1.2.3',
  private172: '172.16.5.5',
  private192: '192.168.7.1',
  shared: '100.64.1.1',
  metadata: '169.254.169.254',
  metadata6: 'fd00:ec2::254',
  linkLocal: '169.254.7.7',
  unique6: 'fc00::7',
  nat64: '64:ff9b::a01:203',
  sixToFour: '2002:a01:203::1',
  teredo: '2001:0:a01:203::1',
  /** Of an interface of the host itself. */
  own: '5.3.3.3',
  benchmark: '198.19.200.200',
  loopback: '127.0.0.1',
  loopback2: '127.8.8.8',
} as const;

/** What a policy of the tests may lead to; whatever arrives elsewhere went around it. */
export const allowedAddresses: ReadonlySet<string> = new Set([places.front, places.cdn, places.resolver]);

/** Where every server listens, on every address: cleartext, TLS, a server that speaks first, plain bytes. */
export const ports = {
  http: 80,
  https: 443,
  greeting: 22,
  bytes: 7777,
  dns: 53,
  dnsTls: 853,
  udp: 9999,
} as const;

export interface ZoneEntry {
  /** Its server never answers. */
  readonly isSilent?: true;
  readonly a?: readonly string[];
  readonly aaaa?: readonly string[];
  readonly txt?: readonly string[];
  readonly mx?: readonly (readonly [priority: number, host: string])[];
  readonly srv?: readonly (readonly [priority: number, weight: number, port: number, host: string])[];
  readonly cname?: string;
  /** From the second question on: what rebinding is made of. */
  readonly later?: ZoneEntry;
  readonly ttlS?: number;
}

/** What the resolver of that Internet knows. A `*.` entry is for all names below without one of their own. */
export const zone: Readonly<Record<string, ZoneEntry>> = {
  '*.allowed.test': { a: [places.front] },
  '*.silent.allowed.test': { isSilent: true },
  'both.allowed.test': { a: [places.front], aaaa: [places.evil6] },
  'alias.allowed.test': { cname: 'api.allowed.test', a: [places.front] },
  'records.allowed.test': {
    a: [places.front],
    txt: ['v=one', 'two'],
    mx: [[10, 'mail.allowed.test']],
  },
  '_svc._tcp.allowed.test': { srv: [[1, 2, 443, 'api.allowed.test']] },
  'empty.allowed.test': { txt: ['no address'] },
  'rebind.allowed.test': { a: [places.front], ttlS: 0, later: { a: [places.private10], ttlS: 0 } },
  'private10.allowed.test': { a: [places.private10] },
  'private172.allowed.test': { a: [places.private172] },
  'private192.allowed.test': { a: [places.private192] },
  'shared.allowed.test': { a: [places.shared] },
  'metadata.allowed.test': { a: [places.metadata] },
  'metadata6.allowed.test': { aaaa: [places.metadata6] },
  'loopback.allowed.test': { a: [places.loopback] },
  'zero.allowed.test': { a: ['0.0.0.0'] },
  'linklocal.allowed.test': { a: [places.linkLocal] },
  'unique6.allowed.test': { aaaa: [places.unique6] },
  'nat64.allowed.test': { aaaa: [places.nat64] },
  'mapped.allowed.test': { aaaa: [`::ffff:${places.private10}`] },
  'sixtofour.allowed.test': { aaaa: [places.sixToFour] },
  'teredo.allowed.test': { aaaa: [places.teredo] },
  'own.allowed.test': { a: [places.own] },
  'virtual.allowed.test': { a: [places.benchmark] },
  'mixed.allowed.test': { a: [places.private10, places.front] },
  'good.cdn.test': { a: [places.cdn] },
  'evil.cdn.test': { a: [places.cdn] },
  'allowed.test': { a: [places.front] },
  'evil-allowed.test': { a: [places.evil] },
  'secret-private.allowed.test': { a: [places.private10] },
  'ported.test': { a: [places.front] },
  'rules.test': { a: [places.front] },
  'other.test': { a: [places.front] },
  'evil.test': { a: [places.evil], aaaa: [places.evil6] },
  '*.evil.test': { a: [places.evil] },
  // What only the old spelling of IPv4 addresses makes of a name.
  'bücher.allowed.test': { a: [places.front] },
};

/** Every name that a certificate of that Internet is good for. */
export const certificateNames = [
  'allowed.test',
  '*.allowed.test',
  '*.cdn.test',
  'rules.test',
  'other.test',
  'evil.test',
  '*.evil.test',
] as const;
