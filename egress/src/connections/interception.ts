/**
 * Hands one connection to the interceptor, with the sandbox's rules as they are at the moment they are asked.
 */
import type { Socket } from 'node:net';
import { formatAddress } from '@squash/policy/address/address';
import { waitInLine } from '@squash/base/in-line';
import type { Policy } from '@squash/policy/policy';
import { DialRefused, type InterceptedConnection, type Interceptor } from '../ports.ts';
import type { ConnectionServices, Readable } from './connection-services.ts';
import type { Sandbox } from './sandbox.ts';
import { dialOne, dialTargets, findTargets } from './targets.ts';
import { connectThrough, dialThrough } from './upstream-proxy.ts';

type DialledFor = Pick<Readable, 'sandbox' | 'destination' | 'onDialled' | 'onRefused'>;

/** Resolves when both ends are closed. */
export async function interceptWith(
  interceptor: Interceptor,
  services: ConnectionServices,
  { socket, readable }: { readonly socket: Socket; readonly readable: Readable },
): Promise<void> {
  const { sandbox, destination, protocol, serverName, refusal } = readable;
  const { record, onDialled, onRefused, onReview } = readable;
  const policy = livePolicy(sandbox);
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
    dial: (signal) => dialServer(services, { sandbox, destination, onDialled, onRefused }, signal),
    record,
    onReview,
  };
  await interceptor.intercept(socket, connection);
}

/** In the sandbox's turn, to an address that may be had at that moment. @throws DialRefused, or an Error with `code` */
export async function dialServer(
  services: Pick<ConnectionServices, 'turns' | 'resolver'>,
  { sandbox, destination, onDialled, onRefused }: DialledFor,
  signal: AbortSignal,
): Promise<Socket> {
  const { turns } = services;
  const policy = livePolicy(sandbox);
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
      const verdict = policy.decideConnection(destination);
      if (!verdict.isAllowed) throw new DialRefused(verdict);
      const through = await connectThrough(
        { upstream, resolver: services.resolver },
        { to: host, port },
        signal,
      );
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

/** Asks the sandbox's present policy, however long the asker keeps this object. */
function livePolicy(sandbox: Sandbox): Policy {
  return {
    decideName: (host) => sandbox.policy.decideName(host),
    decideConnection: (destination) => sandbox.policy.decideConnection(destination),
    decideAddress: (destination, address) => sandbox.policy.decideAddress(destination, address),
    needsRequests: (destination) => sandbox.policy.needsRequests(destination),
    decideRequest: (destination, request) => sandbox.policy.decideRequest(destination, request),
    get isOpen() {
      return sandbox.policy.isOpen;
    },
    get refusedNames() {
      return sandbox.policy.refusedNames;
    },
  };
}
