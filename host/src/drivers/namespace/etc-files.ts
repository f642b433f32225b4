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

/** No name server: a sandbox has no network but its own loopback. Without `options` resolvers wait for seconds. */
export const resolvConfFile = 'options timeout:1 attempts:1\n';
