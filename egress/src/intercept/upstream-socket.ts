/**
 * A connection to the server: dialled by the core (which resolves, checks and picks the address), and for TLS verified
 * here. A server that can not be verified gets nothing, least of all a secret.
 */
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { connect, createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { errorText } from '@squash/base/bug';
import { Failure } from '@squash/base/failure';
import { DialRefused, type InterceptedConnection } from '../ports.ts';
import { interceptLimits } from './limits.ts';
import { UpstreamFailed } from './message.ts';

export type Protocol = 'h2' | 'http/1.1';

export interface UpstreamSocket {
  readonly socket: Socket;
  readonly protocol: Protocol;
}

/** What servers are verified with, made when it is first asked for: a tenth of a second of the processor. */
export type UpstreamRoots = () => SecureContext;

/** Node's public authorities, the host's own, those of `NODE_EXTRA_CA_CERTS` and of `extraPath` (PEM). */
export function upstreamRoots(extraPath?: string): UpstreamRoots {
  let made: SecureContext | undefined;
  return () => (made ??= makeRoots(extraPath));
}

/** @throws Error where that file can not be read */
function makeRoots(extraPath: string | undefined): SecureContext {
  const extra = extraPath === undefined ? [] : [readFileSync(extraPath, 'utf8')];
  const ca = [
    ...new Set([
      ...getCACertificates('bundled'),
      ...getCACertificates('system'),
      ...getCACertificates('extra'),
      ...extra,
    ]),
  ];
  return createSecureContext({ ca, minVersion: 'TLSv1.2' });
}

/** @throws DialRefused, UpstreamFailed, the signal's reason where it aborts before there is a connection */
export async function connectUpstream(
  connection: InterceptedConnection,
  { roots, protocols }: { readonly roots: UpstreamRoots; readonly protocols: readonly Protocol[] },
  signal: AbortSignal,
): Promise<UpstreamSocket> {
  const { destination } = connection;
  const place = destination.host ?? destination.address ?? '';
  const raw = await dial(connection, place, signal);
  raw.setNoDelay(true);
  // From here on errors come with the requests they concern; nobody else may be hit by one.
  raw.on('error', ignore);
  if (connection.protocol === 'http') return { socket: raw, protocol: protocols[0] ?? 'http/1.1' };
  const socket = connect({
    socket: raw,
    host: place,
    // An address is never sent as a name.
    ...(destination.host === undefined ? {} : { servername: destination.host }),
    secureContext: roots(),
    ALPNProtocols: [...protocols],
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(
    () => socket.destroy(new Failure('no_answer', 'it did not answer in time')),
    interceptLimits.handshakeMs,
  );
  const giveUp = (): void => reject(signal.reason);
  signal.addEventListener('abort', giveUp, { once: true });
  socket
    .once('secureConnect', resolve)
    .once('error', reject)
    .once('close', () => reject(new Failure('hung_up', 'it hung up')));
  try {
    if (signal.aborted) giveUp();
    await promise;
  } catch (error) {
    socket.destroy();
    raw.destroy();
    signal.throwIfAborted();
    throw new UpstreamFailed(`no TLS with ${place} came about: ${errorText(error)}`, { cause: error });
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', giveUp);
  }
  socket.on('error', ignore);
  return { socket, protocol: socket.alpnProtocol === 'h2' ? 'h2' : 'http/1.1' };
}

async function dial(connection: InterceptedConnection, place: string, signal: AbortSignal): Promise<Socket> {
  try {
    return await connection.dial(signal);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof DialRefused) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new UpstreamFailed(`${place} can not be reached: ${code ?? errorText(error)}`, { cause: error });
  }
}

/** The stream's `close` says the same. */
function ignore(): void {}
