/** Requests by `fetch`: in Deno and Bun, where it is the faster way, and in browsers, where it is the only one. */
import { type Address, describeAddress } from './address.ts';
import { SquashError, Unreachable } from './errors.ts';
import { protocolError } from './protocol-error.ts';
import {
  inPieces,
  Patience,
  patiently,
  silent,
  type Transport,
  type WireAnswer,
  type WireRequest,
} from './transport.ts';

/** A browser sends no stream over HTTP/1.1: the whole of it is held. */
const heldBytesMax = 1_073_741_824;

export interface FetchOptions {
  /** A browser sends no streams. */
  readonly canStream: boolean;
  /** What the runtime's own `fetch` wants for a Unix socket. */
  readonly socket?: Readonly<Record<string, unknown>>;
  readonly close?: () => void;
}

export function fetchTransport(
  address: Address,
  { canStream, socket = {}, close = () => {} }: FetchOptions,
): Transport {
  const base = address.kind === 'tcp' ? address.base : 'http://localhost';
  let hasAnswered = false;
  const send = async (wanted: WireRequest): Promise<WireAnswer> => {
    const { method, path, headers, silenceMsMax, signal } = wanted;
    signal?.throwIfAborted();
    const abort = new AbortController();
    const end = (why: unknown): void => abort.abort(why);
    const onAbort = (): void => end(signal?.reason);
    signal?.addEventListener('abort', onAbort);
    const patience = new Patience(silenceMsMax, () => end(silent(silenceMsMax)));
    const failed = (cause: unknown): unknown =>
      abort.signal.aborted ? abort.signal.reason : explained(cause, address, hasAnswered);
    try {
      const body = wanted.body === undefined ? {} : await sendable(wanted.body, canStream, patience);
      // A daemon redirects nobody, and what is not one gets no token of ours.
      const init = {
        method,
        headers,
        signal: abort.signal,
        redirect: 'manual',
        cache: 'no-store',
        ...body,
        ...socket,
      };
      const response = await fetch(`${base}${path}`, init as RequestInit);
      hasAnswered = true;
      if (response.status === 0)
        throw protocolError(`what answers at ${describeAddress(address)} is no Squash daemon`);
      const stop = (): void => signal?.removeEventListener('abort', onAbort);
      return {
        status: response.status,
        header: (name) => response.headers.get(name) ?? undefined,
        body: patiently(bodyOf(response, failed, stop), silenceMsMax, end),
        discard: () => {
          stop();
          abort.abort();
        },
      };
    } catch (cause) {
      signal?.removeEventListener('abort', onAbort);
      throw failed(cause);
    } finally {
      patience.stop();
    }
  };
  return { send, close };
}

async function* bodyOf(
  response: Response,
  failed: (cause: unknown) => unknown,
  stop: () => void,
): AsyncGenerator<Uint8Array, void, void> {
  const reader = response.body?.getReader();
  try {
    for (;;) {
      const next = await reader?.read();
      if (next?.value === undefined) return;
      yield next.value;
    }
  } catch (cause) {
    throw failed(cause);
  } finally {
    stop();
    // Not awaited: a reader that broke off is cancelled already.
    reader?.cancel().catch(() => {});
  }
}

async function sendable(
  body: Uint8Array | AsyncIterable<Uint8Array>,
  canStream: boolean,
  patience: Patience,
): Promise<{ readonly body: unknown; readonly duplex?: 'half' }> {
  if (canStream) {
    const parts = inPieces(body);
    if (parts instanceof Uint8Array) return { body: parts };
    return { body: streamOf(parts, patience), duplex: 'half' };
  }
  if (body instanceof Uint8Array) return { body };
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  for await (const part of body) {
    patience.touch();
    bytes += part.length;
    if (bytes > heldBytesMax)
      throw protocolError(`a browser sends at most ${heldBytesMax} bytes in one request`);
    parts.push(new Uint8Array(part));
  }
  return { body: new Blob(parts) };
}

function streamOf(parts: AsyncIterable<Uint8Array>, patience: Patience): ReadableStream<Uint8Array> {
  const iterator = parts[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      patience.touch();
      const next = await iterator.next();
      if (next.done === true) controller.close();
      else controller.enqueue(next.value);
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}

function explained(cause: unknown, address: Address, hasAnswered: boolean): unknown {
  if (cause instanceof SquashError) return cause;
  const where = describeAddress(address);
  const detail = cause instanceof Error ? reasonOf(cause) : String(cause);
  // `fetch` does not tell one from the other: a daemon that has answered before was there.
  const how = hasAnswered ? 'broken_off' : 'not_there';
  return new Unreachable(how, { message: `can't reach the daemon at ${where}: ${detail}`, cause });
}

/** `fetch failed` says nothing; its cause does. */
function reasonOf(error: Error): string {
  return error.cause instanceof Error && error.cause.message !== '' ? error.cause.message : error.message;
}
