/**
 * Requests by `node:http`, over TCP, TLS and Unix sockets. In Node a short exec takes two thirds of what it takes by `fetch`, which
 * besides knows no Unix sockets.
 *
 * Connections are kept: the daemon says how long, and Node lets go of one a second before.
 */
import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import { type Address, describeAddress } from './address.ts';
import { SquashError, Unreachable } from './errors.ts';
import { reachableSocketPath } from './local-daemon.ts';
import type { NodeParts } from './node-parts.ts';
import { protocolError } from './protocol-error.ts';
import {
  connectMsMax,
  inPieces,
  Patience,
  patiently,
  silent,
  type Transport,
  type WireAnswer,
  type WireRequest,
} from './transport.ts';

/** More at once wait for a free one; streams hold one each. */
const connectionsMax = 256;
const headerBytesMax = 65_536;

export function httpTransport(node: NodeParts, address: Address): Transport {
  const isTls = address.kind === 'tcp' && address.base.startsWith('https:');
  const { Agent, request } = isTls ? node.https : node.http;
  const agent = new Agent({ keepAlive: true, maxSockets: connectionsMax });
  const url = new URL(address.kind === 'tcp' ? address.base : 'http://localhost');
  const fixed = {
    agent,
    protocol: url.protocol,
    hostname: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    ...(url.port !== '' && { port: url.port }),
    maxHeaderSize: headerBytesMax,
  };
  const prefix = url.pathname.replace(/\/+$/, '');
  const send = (wanted: WireRequest): Promise<WireAnswer> => {
    const options: RequestOptions = {
      ...fixed,
      method: wanted.method,
      path: `${prefix}${wanted.path}`,
      headers: wanted.headers,
    };
    if (address.kind === 'tcp') return exchange(() => request(options), wanted, address);
    const { path, release } = reachableSocketPath(node, address.path);
    return exchange(() => request({ ...options, socketPath: path }), wanted, address).finally(release);
  };
  return { send, close: () => agent.destroy() };
}

/** Sends one request. What ends it, whatever that is, is the one error that both the head and the body are refused with. */
function exchange(
  open: () => ClientRequest,
  { body, silenceMsMax, signal }: WireRequest,
  address: Address,
): Promise<WireAnswer> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason as Error);
    const request = open();
    let reason: unknown;
    let answer: IncomingMessage | undefined;
    // Not by events alone: not every runtime's request tells that it was destroyed before its answer came.
    const end = (why: unknown): void => {
      reason ??= why;
      stop();
      reject(reason);
      request.destroy();
      answer?.destroy(reason instanceof Error ? reason : undefined);
    };
    const patience = new Patience(silenceMsMax, () => end(silent(silenceMsMax)));
    const onAbort = (): void => end(signal?.reason);
    const stop = (): void => {
      patience.stop();
      signal?.removeEventListener('abort', onAbort);
    };
    signal?.addEventListener('abort', onAbort);
    limitConnecting(request, () => end(notThere(address, `no connection within ${connectMsMax / 1000} s`)));
    const failed = (cause: unknown): unknown => reason ?? explained(cause, address);
    request.on('error', (cause) => {
      stop();
      reject(failed(cause));
    });
    request.on('response', (response) => {
      patience.stop();
      answer = response;
      if (reason !== undefined) response.destroy();
      response.on('close', stop);
      resolve(answerOf(response, { silenceMsMax, end, failed }));
    });
    sendBody(request, body, patience).catch(end);
  });
}

function limitConnecting(request: ClientRequest, onEnd: () => void): void {
  request.on('socket', (socket) => {
    if (!socket.connecting) return;
    const timer = setTimeout(onEnd, connectMsMax);
    const stop = (): void => clearTimeout(timer);
    socket.once('connect', stop);
    socket.once('close', stop);
  });
}

interface Ends {
  readonly silenceMsMax: number;
  readonly end: (why: unknown) => void;
  readonly failed: (cause: unknown) => unknown;
}

function answerOf(response: IncomingMessage, ends: Ends): WireAnswer {
  // Nobody reads yet where it breaks off.
  response.on('error', () => {});
  return {
    status: response.statusCode ?? 0,
    header: (name) => response.headers[name]?.toString(),
    body: patiently(bodyOf(response, ends.failed), ends.silenceMsMax, ends.end),
    discard: () => response.destroy(),
  };
}

async function* bodyOf(
  response: IncomingMessage,
  failed: (cause: unknown) => unknown,
): AsyncGenerator<Uint8Array, void, void> {
  try {
    // Not Buffers, whose `slice` shares what an array's copies: programs get the same in every runtime.
    for await (const part of response as AsyncIterable<Buffer>)
      yield new Uint8Array(part.buffer, part.byteOffset, part.byteLength);
  } catch (cause) {
    throw failed(cause);
  }
}

/** What was written counts as progress when the kernel has it. */
async function sendBody(
  request: ClientRequest,
  body: WireRequest['body'],
  patience: Patience,
): Promise<void> {
  if (body === undefined) {
    request.end();
    return;
  }
  const parts = inPieces(body);
  if (parts instanceof Uint8Array) {
    request.end(parts);
    return;
  }
  for await (const part of parts) {
    if (part.length === 0) continue;
    // An answer that refuses comes before the body's end; who broke off has been told by an event.
    if (request.destroyed) return;
    await new Promise<void>((resolve) => {
      request.once('close', resolve);
      request.write(part, () => {
        request.off('close', resolve);
        resolve();
      });
    });
    patience.touch();
  }
  request.end();
}

function explained(cause: unknown, address: Address): SquashError {
  if (cause instanceof SquashError) return cause;
  const where = describeAddress(address);
  const code = (cause as { readonly code?: string } | undefined)?.code ?? '';
  if (code.startsWith('HPE_')) return protocolError(`what answers at ${where} speaks no HTTP`, { cause });
  const reason = reasons[code];
  if (reason !== undefined) return notThere(address, reason, cause);
  if (/^(EPROTO$|ERR_SSL_|ERR_TLS_)/.test(code))
    return notThere(
      address,
      'it speaks no TLS that we can; without TLS an address begins with http://',
      cause,
    );
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new Unreachable('broken_off', { message: `the daemon at ${where} broke off: ${detail}`, cause });
}

function notThere(address: Address, reason: string, cause?: unknown): Unreachable {
  return new Unreachable('not_there', {
    message: `can't reach the daemon at ${describeAddress(address)}: ${reason}`,
    remedy: 'Start a daemon with `squash serve`, or name the one that runs: `url`, SQUASH_API',
    cause,
  });
}

const refused = 'no daemon listens there';
const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: refused,
  ENOENT: refused,
  EACCES: 'this user may not use the socket',
  EPERM: 'this user may not use the socket',
  ENOTFOUND: 'nobody knows this host',
  EAI_AGAIN: 'nobody knows this host',
  EHOSTUNREACH: 'no way leads to this host',
  ENETUNREACH: 'no way leads to this host',
  ETIMEDOUT: 'this host does not answer',
};
