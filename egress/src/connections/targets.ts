/**
 * From a destination to the addresses that may be dialled for it: resolved, every one of them judged, and nothing else is
 * ever connected to. That closes the gap between checking a name and connecting to it: a name whose answer changes
 * (rebinding) is judged by the address of this moment.
 */
import { connect, type Socket } from 'node:net';
import { Failure } from '@squash/base/failure';
import type { EgressJudged } from '@squash/contract/egress-protocol';
import { type Address, formatAddress, parseAddress } from '@squash/policy/address/address';
import type { Resolution, Resolver } from '../dns/resolver.ts';
import { egressLimits as limits } from '../limits.ts';
import type { Destination, Policy, Verdict } from '@squash/policy/policy';
import { DialRefused } from '../ports.ts';

export type Targets =
  /** IPv4 first: hosts that have IPv6 in DNS but no way to it are more common than the reverse. */
  | { readonly kind: 'targets'; readonly addresses: readonly Address[] }
  | { readonly kind: 'refused'; readonly verdict: Verdict; readonly address: string }
  /** `code` as of the resolver: `ENOTFOUND`, `ENODATA`, `ETIMEOUT` … */
  | { readonly kind: 'unresolved'; readonly code: string };

/** The host's resolvers as one sandbox may ask them. */
export interface SandboxResolver extends Pick<Resolver, 'known'> {
  addresses(host: string): Promise<Resolution>;
}

/** At once where the name is known. Never rejects. */
export function findTargets(
  destination: Destination,
  policy: Policy,
  resolver: SandboxResolver,
): Targets | Promise<Targets> {
  const { host, address } = destination;
  if (host === undefined) return judge(destination, policy, address === undefined ? [] : [address]);
  const known = resolver.known(host);
  if (known !== undefined) return resolved(destination, policy, known);
  return resolver.addresses(host).then((resolution) => resolved(destination, policy, resolution));
}

function resolved(destination: Destination, policy: Policy, resolution: Resolution): Targets {
  switch (resolution.kind) {
    case 'addresses':
      return judge(destination, policy, resolution.addresses);
    case 'empty':
      return { kind: 'unresolved', code: 'ENODATA' };
    case 'missing':
      return { kind: 'unresolved', code: 'ENOTFOUND' };
    case 'failed':
      return { kind: 'unresolved', code: resolution.code };
  }
}

/** Every address of the destination with its verdict, for who asks without dialling. Never rejects. */
export async function judgeAddresses(
  destination: Destination,
  policy: Policy,
  resolver: Pick<Resolver, 'addresses'>,
): Promise<EgressJudged> {
  const { host, address } = destination;
  const found: Resolution =
    host === undefined
      ? { kind: 'addresses', addresses: address === undefined ? [] : [address], ttlS: 0 }
      : await resolver.addresses(host, undefined);
  if (found.kind !== 'addresses') {
    const codes = { empty: 'ENODATA', missing: 'ENOTFOUND' };
    return { addresses: [], code: found.kind === 'failed' ? found.code : codes[found.kind] };
  }
  const addresses = found.addresses.flatMap((text) => {
    const parsed = parseAddress(text);
    if (parsed === undefined) return [];
    const { isAllowed, rule } = policy.decideAddress(destination, formatAddress(parsed));
    return [{ address: formatAddress(parsed), allowed: isAllowed, rule }];
  });
  return { addresses, code: addresses.length === 0 ? 'ENODATA' : null };
}

function judge(destination: Destination, policy: Policy, texts: readonly string[]): Targets {
  const allowed: Address[] = [];
  let refused: Extract<Targets, { kind: 'refused' }> | undefined;
  for (const text of texts) {
    const parsed = parseAddress(text);
    if (parsed === undefined) continue;
    const canonical = formatAddress(parsed);
    const verdict = { ...policy.decideAddress(destination, canonical), address: canonical };
    if (verdict.isAllowed) allowed.push(parsed);
    else refused ??= { kind: 'refused', verdict, address: canonical };
  }
  if (allowed.length === 0) return refused ?? { kind: 'unresolved', code: 'ENODATA' };
  allowed.sort((one, other) => one.length - other.length);
  return { kind: 'targets', addresses: allowed.slice(0, limits.dialAddressesMax) };
}

/** How long the address at this place of `count` may take. */
export function dialMsOf(at: number, count: number): number {
  return at === count - 1 ? limits.dialMs : limits.dialEarlierMs;
}

/** One address, and how long it may take. */
export interface DialTarget {
  readonly address: Address;
  readonly port: number;
  readonly timeoutMs: number;
}

export type Dial = (target: DialTarget, signal: AbortSignal) => Promise<Socket>;

/**
 * Dials for the interceptor, from this process. Resolves with a connected socket that may be half-closed.
 * @throws DialRefused, or an error with the resolver's or the system's `code`
 */
export async function dialTargets(
  found: Targets,
  { port, dial }: { readonly port: number; readonly dial: Dial },
  signal: AbortSignal,
): Promise<{ readonly socket: Socket; readonly address: Address }> {
  if (found.kind === 'refused') throw new DialRefused(found.verdict);
  if (found.kind === 'unresolved') {
    throw new Failure(found.code, `the name can't be resolved: ${found.code}`);
  }
  let failure: unknown;
  for (const [at, address] of found.addresses.entries()) {
    try {
      const socket = await dial({ address, port, timeoutMs: dialMsOf(at, found.addresses.length) }, signal);
      return { socket, address };
    } catch (error) {
      signal.throwIfAborted();
      failure = error;
    }
  }
  throw failure;
}

export async function dialOne(target: DialTarget, signal: AbortSignal): Promise<Socket> {
  signal.throwIfAborted();
  const host = formatAddress(target.address);
  // An address, never a name: `connect` has nothing to resolve.
  const socket = connect({ host, port: target.port, allowHalfOpen: true, noDelay: true });
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const late = new Failure('ETIMEDOUT', `${host} does not answer`);
  const timer = setTimeout(() => reject(late), target.timeoutMs);
  const abort = (): void => reject(signal.reason);
  socket.once('connect', () => resolve(socket)).once('error', reject);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await promise;
  } catch (error) {
    socket.destroy();
    // What it still says after it was given up interests nobody.
    socket.on('error', () => undefined);
    throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    socket.off('error', reject);
  }
}
