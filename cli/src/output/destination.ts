/** Where a connection or request of a sandbox was meant for, in one word or two. */
import type { EgressDecisionInfo } from '@squash/contract/egress';

export function destinationText({ host, address, port, method, path }: EgressDecisionInfo): string {
  const name = host ?? (address?.includes(':') === true ? `[${address}]` : (address ?? '-'));
  const place = port === null ? name : `${name}:${port}`;
  return method === null ? place : `${method} ${place}${path ?? ''}`;
}
