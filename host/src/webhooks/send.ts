/**
 * One try: a POST to the address that was judged, and nothing of the answer but its status. What a receiver says is shown to
 * nobody: it may be a service that was never meant to be asked.
 */
import { request as plainRequest } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { isIP } from 'node:net';
import { Failure } from '@squash/base/failure';
import { limits } from '@squash/contract/limits';
import type { Cidr } from '@squash/policy/address/cidr';
import { targetOf } from './target.ts';

export interface Sent {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The answer's status. @throws webhook_address_refused, and what network, TLS and time-outs say */
export async function send(sent: Sent, allowed: readonly Cidr[], signal: AbortSignal): Promise<number> {
  const late = new AbortController();
  const timer = setTimeout(
    () => late.abort(new Failure('no_answer', `no answer within ${limits.webhookAnswerMs / 1_000} s`)),
    limits.webhookAnswerMs,
  );
  try {
    return await post(sent, allowed, AbortSignal.any([signal, late.signal]));
  } finally {
    clearTimeout(timer);
  }
}

async function post(
  { url, headers, body }: Sent,
  allowed: readonly Cidr[],
  signal: AbortSignal,
): Promise<number> {
  const parsed = new URL(url);
  const { address, port } = await orAbort(targetOf(parsed, allowed), signal);
  const isTls = parsed.protocol === 'https:';
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const name = parsed.hostname.replace(/^\[(.*)\]$/, '$1');
  const outgoing = (isTls ? tlsRequest : plainRequest)({
    // An address, never a name: nothing is left to resolve. The certificate is the name's.
    host: address,
    port,
    ...(isTls && isIP(name) === 0 ? { servername: name } : {}),
    method: 'POST',
    path: `${parsed.pathname}${parsed.search}`,
    headers: {
      ...headers,
      host: parsed.host,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'squash-webhook/1',
    },
    agent: false,
    signal,
    maxHeaderSize: limits.headerBytesMax,
  });
  outgoing.on('response', (response) => {
    let bytes = 0;
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limits.webhookAnswerBytesMax) response.destroy();
    });
    // Cut by us or by them: what counts is known.
    response.on('error', () => undefined);
    response.once('close', () => resolve(response.statusCode ?? 0));
  });
  outgoing.on('error', (error) => reject(signal.aborted ? signal.reason : error));
  outgoing.end(body);
  return await promise;
}

async function orAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
