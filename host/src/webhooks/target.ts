/**
 * From a webhook's URL to the address that is dialled for it: resolved now, judged now, and nothing else connected to. A name
 * whose answer changes (rebinding) is judged by the address of this moment.
 *
 * Without this a webhook would be a way for who may make one to speak to services of the host's own network.
 */
import { Resolver } from 'node:dns/promises';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { type Address, formatAddress, parseAddress } from '@squash/policy/address/address';
import type { Cidr } from '@squash/policy/address/cidr';
import { classifyAddress, isNamedBy } from '@squash/policy/address/ranges';

export interface Target {
  readonly address: string;
  readonly port: number;
}

/** c-ares, not getaddrinfo: a name server that does not answer holds up no thread that files are read on. */
function newResolver(): Resolver {
  return new Resolver({ timeout: limits.webhookLookupMs, tries: 2 });
}

/** IPv4 first, as for sandboxes. @throws webhook_address_refused; Error where the name has no address */
export async function targetOf(url: URL, allowed: readonly Cidr[]): Promise<Target> {
  const host = bareHost(url);
  const literal = parseAddress(host);
  const found = literal === undefined ? await addressesOf(host) : [literal];
  const good = found.find((address) => isReachable(address, allowed));
  if (good === undefined) throw refused(host, found[0]);
  return { address: formatAddress(good), port: portOf(url) };
}

/** What can be said of it before anything is sent. @throws webhook_address_refused */
export function checkLiteral(url: URL, allowed: readonly Cidr[]): void {
  const host = bareHost(url);
  const address = parseAddress(host);
  if (address !== undefined && !isReachable(address, allowed)) throw refused(host, address);
}

function isReachable(address: Address, allowed: readonly Cidr[]): boolean {
  const { kind, prefix } = classifyAddress(address);
  return kind === 'public' || isNamedBy(allowed, address, prefix);
}

async function addressesOf(host: string): Promise<readonly Address[]> {
  // As RFC 6761 has it: nobody is asked.
  const texts = /^(.+\.)?localhost\.?$/i.test(host) ? ['127.0.0.1', '::1'] : await resolved(host);
  return texts.flatMap((text) => parseAddress(text) ?? []);
}

/** The addresses of both families; of the one where the other has none. */
async function resolved(host: string): Promise<readonly string[]> {
  const resolver = newResolver();
  const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const all = [four, six].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (all.length === 0 && four.status === 'rejected') throw four.reason;
  return all;
}

function refused(host: string, address: Address | undefined): AppError {
  const shown = address === undefined ? 'no address' : formatAddress(address);
  const { kind } = address === undefined ? { kind: 'reserved' } : classifyAddress(address);
  return new AppError(
    'webhook_address_refused',
    `"${host}" leads to ${shown}, which is ${kind} and in no range of SQUASH_WEBHOOK_RANGES`,
  );
}

function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

function portOf({ port, protocol }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}
