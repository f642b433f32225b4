/**
 * Proxies beside a daemon that asks for no token: what such a proxy sends to it counts as sent by the proxy's user, and where the
 * proxy looks names up nobody here knows where a name leads.
 */
import type { Problem } from '@squash/contract/daemon';
import { parseUpstream, type Upstreams } from '@squash/contract/upstreams';
import type { Config } from '../config/config.ts';

export function besideDaemon(
  upstreams: Upstreams,
  { listen, authToken }: Pick<Config, 'listen' | 'authToken'>,
): readonly Problem[] {
  if (authToken !== undefined || listen.port === undefined) return [];
  const names = Object.entries(upstreams).flatMap(([name, url]) => {
    const proxy = parseUpstream(url);
    const isBeside = proxy?.resolvesNames === true && /^(localhost|127\.[\d.]+|::1)$/i.test(proxy.host);
    return isBeside ? [`"${name}"`] : [];
  });
  if (names.length === 0) return [];
  const message =
    `the daemon asks nobody on this host for a token, and egress-upstreams.json has proxies on this host that look names up (${names.join(', ')}): ` +
    'what a sandbox can make them send to the daemon counts as sent by their user: set SQUASH_AUTH_TOKEN, or SQUASH_PORT=off';
  return [{ code: 'upstream_beside_daemon', message }];
}
