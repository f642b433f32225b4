/**
 * Requests over HTTP/2 to the server: streams of one session, which belongs to one connection of one program.
 */
import type {
  ClientHttp2Session,
  ClientHttp2Stream,
  Http2Stream,
  IncomingHttpHeaders,
  IncomingHttpStatusHeader,
} from 'node:http2';
import type { Socket } from 'node:net';
import { errorText } from '@squash/base/bug';
import { Failure } from '@squash/base/failure';
import { endToEnd, fieldsOf, forHttp2, without } from './headers.ts';
import { http2 } from './http2.ts';
import { interceptLimits } from './limits.ts';
import {
  type Answer,
  type HeaderList,
  type OutgoingRequest,
  type Upstream,
  type UpstreamExchange,
  UpstreamFailed,
} from './message.ts';

/** Settings of both sides. Nothing is pushed: no program could be told what a push was for. */
export const http2Settings = {
  enablePush: false,
  initialWindowSize: interceptLimits.windowBytes,
  maxConcurrentStreams: interceptLimits.requestsMax,
  maxHeaderListSize: interceptLimits.headerBytesMax,
} as const;

export class Http2Upstream implements Upstream {
  readonly #session: ClientHttp2Session;
  readonly #scheme: string;

  constructor(socket: Socket, scheme: 'http' | 'https') {
    this.#scheme = scheme;
    this.#session = http2().connect(`${scheme}://upstream.invalid`, {
      createConnection: () => socket,
      settings: http2Settings,
      // Fields of one message; the default of 128 is less than some services send.
      maxHeaderListPairs: 512,
      maxSendHeaderBlockLength: 2 * interceptLimits.headerBytesMax,
    });
    this.#session.on('connect', () => this.#session.setLocalWindowSize(interceptLimits.windowBytes));
    // Every stream hears of it, too.
    this.#session.on('error', () => {});
  }

  /** No further request can go here: it is closed, or the server said so. */
  get isOver(): boolean {
    return this.#session.closed || this.#session.destroyed;
  }

  send(outgoing: OutgoingRequest): Promise<UpstreamExchange> {
    const headers = [
      ':method',
      outgoing.method,
      ':scheme',
      this.#scheme,
      ':authority',
      outgoing.authority,
      ':path',
      outgoing.target,
      ...forHttp2(outgoing.headers),
      ...(outgoing.expectsContinue ? ['expect', '100-continue'] : []),
    ];
    const stream = this.#session.request(headers, {
      endStream: !outgoing.hasBody,
      waitForTrailers: outgoing.hasBody,
    });
    return Promise.resolve(new Http2Exchange(stream, outgoing));
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#session.destroy();
    return Promise.resolve();
  }
}

class Http2Exchange implements UpstreamExchange {
  readonly sink: ClientHttp2Stream;
  readonly answer: Promise<Answer>;

  constructor(stream: ClientHttp2Stream, outgoing: OutgoingRequest) {
    this.sink = stream;
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    this.answer = promise;
    let trailers: HeaderList = [];
    stream.on('trailers', (_headers, _flags, ...raw: unknown[]) => {
      trailers = endToEnd(rawList(raw, _headers));
    });
    stream.on('response', (headers, flags, ...raw: unknown[]) => {
      const status = headers[':status'] ?? 502;
      const hasBody = outgoing.method !== 'HEAD' && (flags & http2().constants.NGHTTP2_FLAG_END_STREAM) === 0;
      const list = without(endToEnd(rawList(raw, headers)), 'alt-svc');
      resolve({
        head: { status, reason: '', headers: list, hasBody },
        body: stream,
        trailers: () => trailers,
      });
    });
    stream.on('continue', outgoing.onContinue);
    let early = 0;
    stream.on('headers', (headers, _flags, ...raw: unknown[]) => {
      early += 1;
      if (early > interceptLimits.earlyMax)
        return void stream.destroy(new Failure('early_answers', 'early answers without end'));
      const status = headers[':status'] ?? 0;
      if (status > 101 && status < 200) outgoing.onEarly(status, endToEnd(rawList(raw, headers)));
    });
    stream.on('error', (error) =>
      reject(new UpstreamFailed(`the server refused the request: ${errorText(error)}`, { cause: error })),
    );
    stream.on('close', () => reject(new UpstreamFailed('the server hung up without an answer')));
  }

  finish(trailers: HeaderList): void {
    this.sink.once('wantTrailers', () => sendTrailers(this.sink, trailers));
    this.sink.end();
  }

  abort(): void {
    // Not close(): that ends the body first, and the server would take a broken request for a whole one.
    this.sink.destroy(new Failure('given_up', 'given up'));
  }
}

/** Node hands the flat list over as the last argument, which its types do not know everywhere. */
export function rawList(
  raw: readonly unknown[],
  headers: IncomingHttpHeaders & IncomingHttpStatusHeader,
): HeaderList {
  const last = raw.at(-1);
  if (Array.isArray(last)) return last.map(String);
  return Object.entries(headers).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).flatMap((each) =>
      each === undefined ? [] : [name, String(each)],
    ),
  );
}

/** Ends a stream with them, or breaks it off where HTTP/2 can not say what HTTP/1.1 said. */
export function sendTrailers(stream: Http2Stream, trailers: HeaderList): void {
  try {
    stream.sendTrailers(objectOf(forHttp2(trailers)));
  } catch (error) {
    stream.destroy(error as Error);
  }
}

/** Trailers, the one place where Node takes no flat list. */
export function objectOf(list: HeaderList): Record<string, string[]> {
  const object: Record<string, string[]> = {};
  for (const [name, value] of fieldsOf(list)) {
    object[name] ??= [];
    object[name].push(value);
  }
  return object;
}
