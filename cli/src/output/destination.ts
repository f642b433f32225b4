/** Where a connection or request of a sandbox was meant for, in one word or two. */
import type { EgressDecisionInfo } from '@squash/contract/egress';

type Wanted = Pick<EgressDecisionInfo, 'host' | 'address' | 'port' | 'method' | 'path'>;

/** `POST www.example.com:443/v1`. A sandbox chose it: `visible` is for whoever prints it. */
export function destinationText({ host, address, port, method, path }: Wanted): string {
  const name = host ?? (address?.includes(':') === true ? `[${address}]` : (address ?? '-'));
  const place = port === null ? name : `${name}:${port}`;
  return method === null ? place : `${method} ${place}${path ?? ''}`;
}
