/**
 * Hands one connection to the interceptor, with the sandbox's rules as they are at the moment they are asked.
 */
import type { Socket } from 'node:net';
import { callerServiceName } from '@squash/contract/destination';
import { formatAddress } from '@squash/policy/address/address';
import { waitInLine } from '@squash/base/in-line';
import { daemonAddress } from '@squash/policy/compile';
import type { Destination, Policy, Verdict } from '@squash/policy/policy';
import { refusedToProxy } from '@squash/policy/private-names';
import { type Asker, isAsking, type Questions } from '../approvals/questions.ts';
import { DialRefused, type InterceptedConnection, type Interceptor } from '../ports.ts';
import type { ConnectionServices, Readable } from './connection-services.ts';
import { dialOne, dialTargets, findTargets, type SandboxResolver } from './targets.ts';
import { connectThrough, dialThrough, isOnThisHost, type Way } from './upstream-proxy.ts';

type DialledFor = Pick<Readable, 'sandbox' | 'policy' | 'destination' | 'onDialled' | 'onRefused'>;

/** Resolves when both ends are closed. */
export async function interceptWith(
  interceptor: Interceptor,
  services: ConnectionServices,
  { socket, readable }: { readonly socket: Socket; readonly readable: Readable },
): Promise<void> {
  const { sandbox, destination, protocol, serverName, refusal } = readable;
  const { policy, record, onDialled, onRefused, onReview } = readable;
  const connection: InterceptedConnection = {
    sandbox: sandbox.id,
    destination,
    protocol,
    isTlsUnread: !services.interceptsTls(),
    serverName,
    refusal,
    policy,
    get secrets() {
      return sandbox.secrets;
    },
    ask: (asked, signal) => askPerson(services.questions, { ...asked, sandbox: sandbox.id }, signal),
    dial: (signal) => dialServer(services, { sandbox, policy, destination, onDialled, onRefused }, signal),
    record,
    onReview,
  };
  await interceptor.intercept(socket, connection);
}

/** Undefined: it is allowed, or nobody waits any more. */
async function askPerson(
  questions: Questions,
  asker: Asker,
  signal: AbortSignal,
): Promise<Verdict | undefined> {
  if (signal.aborted) return undefined;
  const { promise, resolve } = Promise.withResolvers<Verdict | undefined>();
  const asking = questions.ask(asker, resolve);
  if (!isAsking(asking)) return asking;
  const leave = (): void => {
    asking.leave();
    resolve(undefined);
  };
  signal.addEventListener('abort', leave, { once: true });
  const refusal = await promise;
  signal.removeEventListener('abort', leave);
  return refusal;
}

/** In the sandbox's turn, to an address that may be had at that moment; or to whoever offers the port. @throws DialRefused, or an Error with `code` */
export async function dialServer(
  services: Pick<ConnectionServices, 'turns' | 'resolver' | 'callers'>,
  { sandbox, policy, destination, onDialled, onRefused }: DialledFor,
  signal: AbortSignal,
): Promise<Socket> {
  const { turns } = services;
  if (destination.host === callerServiceName) {
    const taken = await services.callers.reach({ sandbox: sandbox.id, port: destination.port }, signal);
    onDialled(undefined);
    return taken;
  }
  const resolver = sandbox.resolverOf(services.resolver);
  const upstream = sandbox.upstreamTo(destination);
  const { host, port } = destination;
  const isLeft = sandbox.leavesName(destination);
  // The turn may be long in coming, and what may be dialled is what may be dialled then.
  if (!isLeft) await findTargets(destination, policy, resolver);
  const line = {
    enter: (begin: () => void) => turns.take(sandbox.id, begin),
    leave: (begin: () => void) => turns.leave(sandbox.id, begin),
  };
  await waitInLine(line, signal);
  try {
    if (isLeft && host !== undefined && upstream !== undefined) {
      const way = { upstream, resolver: services.resolver };
      const refusal =
        leavingRefused(policy, { host, port }) ??
        (await daemonRefused(policy, { ...destination, host }, { way, resolver }));
      if (refusal !== undefined) throw new DialRefused(refusal);
      const through = await connectThrough(way, { to: host, port }, signal);
      onDialled(undefined);
      return through;
    }
    const found = await findTargets(destination, policy, resolver);
    if (found.kind === 'refused') onRefused(found.address);
    const dial = upstream === undefined ? dialOne : dialThrough({ upstream, resolver: services.resolver });
    const { socket, address } = await dialTargets(found, { port, dial }, signal);
    const text = formatAddress(address);
    const verdict = { ...policy.decideAddress(destination, text), address: text };
    if (verdict.isAllowed) {
      onDialled(address);
      return socket;
    }
    socket.destroy();
    throw new DialRefused(verdict);
  } finally {
    turns.done(sandbox.id);
  }
}

function leavingRefused(
  policy: Policy,
  { host, port }: { readonly host: string; readonly port: number },
): Verdict | undefined {
  const verdict = policy.decideConnection({ host, address: undefined, port });
  return verdict.isAllowed ? refusedToProxy(policy, host, port) : verdict;
}

/**
 * Behind its own listener is everything, and a proxy on this host speaks to it as a program of this host. Where a name leads the
 * proxy alone knows, so no name gets through such a proxy to that port; through another one, none that is known here to lead there.
 */
async function daemonRefused(
  policy: Policy,
  destination: Destination & { readonly host: string },
  { way, resolver }: { readonly way: Way; readonly resolver: SandboxResolver },
): Promise<Verdict | undefined> {
  const isDaemon = (address: string): boolean => policy.decideAddress(destination, address) === daemonAddress;
  // The port is the daemon's, whichever address it listens on.
  if (!isDaemon('0.0.0.0')) return undefined;
  const known = resolver.known(destination.host);
  if (known?.kind === 'addresses' && known.addresses.some(isDaemon)) return daemonAddress;
  return (await isOnThisHost(way)) ? daemonAddress : undefined;
}
