/**
 * A program's HTTP/2 request: one stream of its session.
 */
import type { ServerHttp2Stream } from 'node:http2';
import type { Readable, Writable } from 'node:stream';
import { Failure } from '@squash/base/failure';
import { endToEnd, forHttp2, tokens, valueOf, valuesOf } from './headers.ts';
import { http2 } from './http2.ts';
import { interceptLimits } from './limits.ts';
import type { AnswerHead, FrontExchange, HeaderList, RequestHead } from './message.ts';
import { objectOf, sendTrailers } from './upstream-http2.ts';

export class Http2Front implements FrontExchange {
  readonly head: RequestHead;
  readonly #stream: ServerHttp2Stream;
  #hasContinued = false;
  #requestTrailers: HeaderList = [];
  #answerTrailers: HeaderList = [];

  /** @param raw the stream's headers, flat, pseudo-headers first */
  constructor(stream: ServerHttp2Stream, raw: HeaderList) {
    this.#stream = stream;
    this.head = headOf(stream, raw);
    stream.on('trailers', (_headers, _flags, ...rest: unknown[]) => {
      const last = rest.at(-1);
      if (Array.isArray(last)) this.#requestTrailers = endToEnd(last.map(String));
    });
    // The exchange hears of the same from `onGone`.
    stream.on('error', () => {});
  }

  get body(): Readable {
    return this.#stream;
  }

  get hasAnswered(): boolean {
    return this.#stream.headersSent;
  }

  trailers(): HeaderList {
    return this.#requestTrailers;
  }

  onGone(listener: () => void): void {
    if (!this.#isOpen) return listener();
    this.#stream.once('close', () => {
      if (!this.#stream.writableFinished || this.#stream.rstCode !== http2().constants.NGHTTP2_NO_ERROR)
        listener();
    });
  }

  sendContinue(): void {
    // Once: a server may say it as often as it likes.
    if (!this.#isOpen || this.hasAnswered || this.#hasContinued) return;
    this.#hasContinued = true;
    this.#stream.additionalHeaders({ ':status': 100 });
  }

  sendEarly(status: number, headers: HeaderList): void {
    if (!this.#isOpen || this.hasAnswered) return;
    try {
      this.#stream.additionalHeaders({ ':status': status, ...objectOf(forHttp2(headers)) });
    } catch {
      // What HTTP/1.1 can say and HTTP/2 can not. A hint that is not passed on is no loss.
    }
  }

  answer({ status, headers, hasBody }: AnswerHead): Writable {
    if (!this.#isOpen) return this.#stream;
    const list = [':status', String(status), ...forHttp2(headers)];
    if (hasBody) this.#stream.once('wantTrailers', () => sendTrailers(this.#stream, this.#answerTrailers));
    this.#stream.respond(list, hasBody ? { waitForTrailers: true } : { endStream: true });
    return this.#stream;
  }

  finish(trailers: HeaderList): void {
    this.#answerTrailers = trailers;
    this.#stream.end();
    if (!this.#stream.readableEnded) this.#drain();
  }

  /** Reads what is left of the request's body, so that the program gets to read the answer; not for ever. */
  #drain(): void {
    let left: number = interceptLimits.refusedBodyBytesMax;
    this.#stream.on('data', (piece: Buffer) => {
      left -= piece.length;
      if (left < 0) this.#stream.close(http2().constants.NGHTTP2_NO_ERROR);
    });
    this.#stream.resume();
  }

  abort(): void {
    // Not close(): that ends the body first, and the program would take a broken answer for a whole one.
    this.#stream.destroy(new Failure('broken_off', 'broken off'));
  }

  get #isOpen(): boolean {
    return !this.#stream.closed && !this.#stream.destroyed;
  }
}

function headOf(stream: ServerHttp2Stream, raw: HeaderList): RequestHead {
  const pseudo = (name: string): string | undefined => valuesOf(raw, name)[0];
  const hosts = [...valuesOf(raw, ':authority'), ...valuesOf(raw, 'host')];
  const method = pseudo(':method') ?? '';
  const target = pseudo(':path') ?? '';
  return {
    method,
    target,
    authority: hosts[0],
    headers: endToEnd(raw),
    hasBody: !stream.readableEnded && !stream.endAfterHeaders,
    expectsContinue: tokens(valueOf(raw, 'expect')).includes('100-continue'),
    malformed: problemOf(hosts, target),
  };
}

function problemOf(hosts: readonly string[], target: string): string | undefined {
  if (new Set(hosts.map((host) => host.toLowerCase())).size > 1) return 'the request names two hosts';
  return target.includes('#') ? 'the request’s target has a fragment' : undefined;
}
