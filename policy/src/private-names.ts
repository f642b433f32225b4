/**
 * Names that mean nothing to strangers, or a place that is not public. This host's resolvers are never asked for those of the
 * first kind; where a proxy looks names up, it gets neither.
 */
import { isServiceName } from '@squash/contract/destination';
import type { Policy, Verdict } from './policy.ts';

/** Names that mean nothing, or nothing to strangers, outside of this host's own files. */
export function staysHere(host: string): boolean {
  return isServiceName(host) || !host.includes('.') || /\.(local|localdomain|onion|invalid|alt)$/.test(host);
}

/** What clouds call their metadata services, beside names of one label. */
const metadataNames: ReadonlySet<string> = new Set([
  'instance-data.ec2.internal',
  'metadata.azure.internal',
  'metadata.goog',
  'metadata.google.internal',
  'metadata.tencentyun.com',
]);

const refusal: Verdict = { isAllowed: false, rule: 'private_name' };

/**
 * For a name that a proxy would look up: no address behind it can be judged, so a name that is not public needs a rule for
 * itself, as an address that is not public does. @param port undefined: a query, which has none
 */
export function refusedToProxy(policy: Policy, host: string, port?: number): Verdict | undefined {
  const isPrivate = staysHere(host) || metadataNames.has(host);
  return isPrivate && !policy.namesHost(host, port) ? refusal : undefined;
}
