/**
 * Connects to a destination through a proxy of the operator's: HTTP's CONNECT, or SOCKS5 (RFC 1928, 1929).
 *
 * What a newcomer would get wrong: where the proxy looks names up itself, nobody here knows which address is reached, so what
 * keeps private places out for names is the proxy's own list. Addresses are judged here before they come this far. What
 * the proxy says goes to the log by a short code and to no program: it may hold words about the operator's network.
 */
import type { Socket } from 'node:net';
import { Failure } from '@squash/base/failure';
import { type Address, formatAddress, parseAddress } from '@squash/policy/address/address';
import type { UpstreamProxy } from '@squash/contract/upstreams';
import type { Resolver } from '../dns/resolver.ts';
import { egressLimits as limits } from '../limits.ts';
import { ProxyFailed } from '../ports.ts';
import { isLocal } from './own-addresses.ts';
import { type Dial, dialOne, dialTargets, type Targets } from './targets.ts';

export interface NamedUpstream {
  readonly name: string;
  readonly proxy: UpstreamProxy;
}

export interface ProxyTarget {
  readonly to: string | Address;
  readonly port: number;
}

/** The proxy with the way to it. */
export interface Way {
  readonly upstream: NamedUpstream;
  readonly resolver: Pick<Resolver, 'operatorAddresses'>;
}

/** @throws ProxyFailed, the signal's reason */
export async function connectThrough(
  { upstream, resolver }: Way,
  target: ProxyTarget,
  signal: AbortSignal,
): Promise<Socket> {
  const { name, proxy } = upstream;
  let socket: Socket | undefined;
  const giveUp = (): void => void socket?.destroy();
  try {
    ({ socket } = await dialTargets(
      await addressesOf(proxy, resolver),
      { port: proxy.port, dial: dialOne },
      signal,
    ));
    signal.addEventListener('abort', giveUp, { once: true });
    signal.throwIfAborted();
    socket.setTimeout(limits.proxyAnswerMs, giveUp);
    await (proxy.protocol === 'http' ? connectByHttp : connectBySocks)(socket, proxy, target);
    socket.setTimeout(0);
    socket.off('timeout', giveUp);
    return socket;
  } catch (error) {
    socket?.destroy();
    signal.throwIfAborted();
    throw new ProxyFailed(name, String((error as NodeJS.ErrnoException).code ?? 'EIO'), { cause: error });
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}

/** For addresses that were judged here. The proxy's own bound is that of the dial. */
export function dialThrough(way: Way): Dial {
  return ({ address, port }, signal) => connectThrough(way, { to: address, port }, signal);
}

/** Where it can't be found out nothing is dialled either. */
export async function isOnThisHost({ upstream, resolver }: Way): Promise<boolean> {
  const found = await addressesOf(upstream.proxy, resolver);
  return found.kind === 'targets' && found.addresses.some(isLocal);
}

/** Of the operator's own choice: nothing of them is judged. */
async function addressesOf({ host }: UpstreamProxy, resolver: Way['resolver']): Promise<Targets> {
  const literal = parseAddress(host);
  if (literal !== undefined) return { kind: 'targets', addresses: [literal] };
  const found = await resolver.operatorAddresses(host);
  if (found.kind !== 'addresses') {
    return { kind: 'unresolved', code: found.kind === 'failed' ? found.code : 'ENOTFOUND' };
  }
  const addresses = found.addresses.flatMap((text) => parseAddress(text) ?? []);
  return { kind: 'targets', addresses: addresses.slice(0, limits.dialAddressesMax) };
}

async function connectByHttp(
  socket: Socket,
  { login }: UpstreamProxy,
  { to, port }: ProxyTarget,
): Promise<void> {
  const host = typeof to === 'string' ? to : formatAddress(to);
  const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const lines = [`CONNECT ${authority} HTTP/1.1`, `Host: ${authority}`];
  if (login !== undefined) {
    const words = Buffer.from(`${login.name}:${login.password}`).toString('base64');
    lines.push(`Proxy-Authorization: Basic ${words}`);
  }
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  const head = await read(socket, (bytes) => {
    const at = bytes.indexOf('\r\n\r\n');
    return at < 0 ? undefined : at + 4;
  });
  const [, status = 'proxy_protocol'] = /^HTTP\/1\.[01] (\d{3})[ \r]/.exec(head.toString('latin1')) ?? [];
  if (!status.startsWith('2')) throw coded(status);
}

const noLogin = 0;
const byPassword = 2;
const version = 5;

async function connectBySocks(
  socket: Socket,
  { login }: UpstreamProxy,
  { to, port }: ProxyTarget,
): Promise<void> {
  const methods = login === undefined ? [noLogin] : [noLogin, byPassword];
  socket.write(Uint8Array.of(version, methods.length, ...methods));
  const [spoken, method = -1] = await read(socket, () => 2);
  if (spoken !== version) throw coded('proxy_protocol');
  if (!methods.includes(method)) throw coded('socks_login');
  if (method === byPassword) {
    const words = [login?.name ?? '', login?.password ?? ''].map((word) => Buffer.from(word));
    socket.write(
      Buffer.concat([Uint8Array.of(1), ...words.flatMap((word) => [Uint8Array.of(word.length), word])]),
    );
    const [, refusal] = await read(socket, () => 2);
    if (refusal !== 0) throw coded('socks_login');
  }
  const connect = Uint8Array.of(version, 1, 0);
  socket.write(Buffer.concat([connect, socksAddress(to), Uint8Array.of(port >> 8, port & 0xff)]));
  // The address that it answers with means nothing here, but has to be read.
  const [answered, reply] = await read(socket, (bytes) => socksAnswerBytes(bytes));
  if (answered !== version) throw coded('proxy_protocol');
  if (reply !== 0) throw coded(`socks_${reply}`);
}

function socksAddress(to: string | Address): Buffer {
  if (typeof to !== 'string') return Buffer.from([to.length === 4 ? 1 : 4, ...to]);
  return Buffer.concat([Uint8Array.of(3, to.length), Buffer.from(to, 'latin1')]);
}

function socksAnswerBytes(bytes: Buffer): number | undefined {
  const [, reply, , kind, length] = bytes;
  // Some end the answer here where it is no.
  if (reply !== undefined && reply !== 0) return 2;
  if (length === undefined) return undefined;
  return 4 + 2 + (kind === 1 ? 4 : kind === 4 ? 16 : 1 + length);
}

/** As many bytes as `sizeOf` wants, which says so as soon as it knows. What comes behind them stays in the socket. */
async function read(socket: Socket, sizeOf: (bytes: Buffer) => number | undefined): Promise<Buffer> {
  let bytes: Buffer = Buffer.alloc(0);
  for (;;) {
    const size = sizeOf(bytes);
    if (size !== undefined && bytes.length >= size) {
      if (bytes.length > size) socket.unshift(bytes.subarray(size));
      return bytes.subarray(0, size);
    }
    if (bytes.length > limits.proxyAnswerBytesMax) throw coded('proxy_protocol');
    const piece = socket.read() as Buffer | null;
    if (piece === null) await more(socket);
    else bytes = Buffer.concat([bytes, piece]);
  }
}

async function more(socket: Socket): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const gone = (): void => reject(coded(socket.destroyed ? 'ETIMEDOUT' : 'ECONNRESET'));
  if (socket.readableEnded || socket.destroyed) gone();
  socket.once('readable', resolve).once('end', gone).once('close', gone).once('error', reject);
  try {
    await promise;
  } finally {
    socket.off('readable', resolve).off('end', gone).off('close', gone).off('error', reject);
  }
}

function coded(code: string): Failure {
  return new Failure(code, `the proxy says or does ${code}`);
}
