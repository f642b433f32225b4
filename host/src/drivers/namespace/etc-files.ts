/**
 * `/etc/hosts` and `/etc/resolv.conf` of a sandbox: given to it read-only at start, never part of its upper, so no
 * snapshot carries them elsewhere.
 */

/** The sandbox knows itself and loopback. */
export function hostsFile(hostname: string): string {
  return [
    '127.0.0.1\tlocalhost',
    `127.0.1.1\t${hostname}`,
    '::1\tlocalhost ip6-localhost ip6-loopback',
    '',
  ].join('\n');
}

/**
 * The egress process answers at an address that nothing else has (docs/internals/egress.md); every C library takes
 * these options. A query is lost while the egress process restarts, so resolvers ask again soon, and for longer than
 * that takes.
 */
const resolvConfFile = 'nameserver 198.18.0.1\noptions timeout:2 attempts:3\n';

/** No name server, where a sandbox has only loopback. Without `options` resolvers wait for seconds. */
const resolvConfWithoutNetwork = 'options timeout:1 attempts:1\n';

export function resolvConf(hasNetwork: boolean): string {
  return hasNetwork ? resolvConfFile : resolvConfWithoutNetwork;
}
