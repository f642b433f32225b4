/**
 * The secrets for one request, once the tokens that it will carry have been refreshed where they are due. What it does not carry
 * delays nothing: a credential that can't be refreshed is nobody's trouble but of those who use it.
 */
import { unlessAborted } from '@squash/base/unless-aborted';
import type { InterceptedConnection } from '../ports.ts';
import type { TrafficSecret, TrafficSecrets } from '../secrets/traffic-secrets.ts';
import type { LiveExchange } from './live-exchange.ts';

export interface Carried {
  readonly connection: InterceptedConnection;
  /** Path and query. */
  readonly target: string;
  /** Something that is read later may carry one. */
  readonly mayHaveBody: boolean;
}

/** @throws SecretFailed, the signal's reason */
export async function freshSecrets(live: LiveExchange, carried: Carried): Promise<TrafficSecrets> {
  const traffic = live.takeSecrets();
  const refreshed = traffic.secrets.filter((secret) => secret.isRefreshed);
  if (refreshed.length === 0) return traffic;
  const headers = live.front.head.headers.map(readable).join('\n');
  const work = refreshed
    .filter((secret) => carries(secret, headers, carried))
    .flatMap((secret) => secret.ready() ?? []);
  if (work.length === 0) return traffic;
  await unlessAborted(Promise.all(work), live.signal);
  return live.takeSecrets();
}

function carries(
  secret: TrafficSecret,
  headers: string,
  { connection, target, mayHaveBody }: Carried,
): boolean {
  const { destination } = connection;
  const isIn = (text: string, ...surfaces: readonly ('headers' | 'query' | 'path')[]): boolean =>
    surfaces.some((surface) => secret.permits(surface, destination)) && text.includes(secret.placeholder);
  return (
    isIn(headers, 'headers') ||
    isIn(target, 'query', 'path') ||
    (mayHaveBody && secret.permits('body', destination))
  );
}

function readable(value: string): string {
  const [, credentials] = /^basic\s+(\S+)\s*$/i.exec(value) ?? [];
  return credentials === undefined ? value : Buffer.from(credentials, 'base64').toString('latin1');
}
