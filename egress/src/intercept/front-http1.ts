/**
 * A program's HTTP/1.1 request, read by Node's strict parser: it refuses two lengths, a length beside chunks, folded
 * lines, bare line feeds and spaces before colons. What it lets through is written anew for the server, so no two
 * readings of one message can exist.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable, Writable } from 'node:stream';
import { endToEnd, fieldsOf, tokens, valueOf, valuesOf } from './headers.ts';
import { interceptLimits } from './limits.ts';
import type { AnswerHead, FrontExchange, HeaderList, RequestHead } from './message.ts';

export class Http1Front implements FrontExchange {
  readonly head: RequestHead;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #expectsContinue: boolean;
  #isChunked = false;
  #hasContinued = false;

  /** @param upgrade what it is served as changing to */
  constructor(request: IncomingMessage, response: ServerResponse, upgrade?: string) {
    this.#request = request;
    this.#response = response;
    this.#expectsContinue = tokens(valueOf(request.rawHeaders, 'expect')).includes('100-continue');
    this.head = { ...headOf(request, this.#expectsContinue), upgrade: upgrade?.toLowerCase() };
    // What the server sends is passed on, its date too.
    response.sendDate = false;
    // The exchange hears of the same from `onGone`.
    request.on('error', () => {});
    response.on('error', () => {});
  }

  get body(): Readable {
    return this.#request;
  }

  get hasAnswered(): boolean {
    return this.#response.headersSent;
  }

  trailers(): HeaderList {
    return endToEnd(this.#request.rawTrailers);
  }

  onGone(listener: () => void): void {
    if (this.#response.closed) return listener();
    this.#response.once('close', () => {
      if (!this.#response.writableFinished) listener();
    });
  }

  sendContinue(): void {
    if (this.hasAnswered || !this.#expectsContinue || this.#hasContinued) return;
    this.#hasContinued = true;
    this.#response.writeContinue();
  }

  sendEarly(status: number, headers: HeaderList): void {
    const link = valuesOf(headers, 'link');
    if (status !== 103 || link.length === 0 || this.hasAnswered || this.#request.httpVersion === '1.0')
      return;
    try {
      this.#response.writeEarlyHints({ link });
    } catch {
      // Node checks links more strictly than others do. A hint that is not passed on is no loss.
    }
  }

  answer({ status, reason, headers, hasBody }: AnswerHead): Writable {
    const list = [...headers];
    const hasLength = valuesOf(headers, 'content-length').length > 0;
    this.#isChunked = hasBody && !hasLength;
    // HTTP/2 can say that nothing follows; here it takes a length.
    const isBare = this.#request.method === 'HEAD' || status === 204 || status === 304;
    if (!hasBody && !hasLength && !isBare) list.push('Content-Length', '0');
    // The program may or may not send the body it announced: the next request could not be told from it.
    if (this.#expectsContinue && !this.#hasContinued) list.push('Connection', 'close');
    this.#response.writeHead(status, reason, list);
    // A stream of events begins with its head alone; else head and body leave together.
    setImmediate(() => {
      if (!this.#response.writableEnded && !this.#response.destroyed) this.#response.flushHeaders();
    });
    return this.#response;
  }

  finish(trailers: HeaderList): void {
    if (trailers.length > 0 && this.#isChunked) {
      this.#response.addTrailers(
        Array.from(fieldsOf(trailers), ([name, value]): [string, string] => [name, value]),
      );
    }
    this.#response.end();
    this.#drain();
  }

  /** Reads what is left of the request's body, so that the program gets to read the answer; not for ever. */
  #drain(): void {
    if (this.#request.complete) return;
    let left: number = interceptLimits.refusedBodyBytesMax;
    this.#request.on('data', (piece: Buffer) => {
      left -= piece.length;
      if (left < 0) this.abort();
    });
    this.#request.resume();
  }

  abort(): void {
    this.#request.socket.destroy();
  }
}

function headOf(request: IncomingMessage, expectsContinue: boolean): RequestHead {
  const { rawHeaders } = request;
  const [authority] = valuesOf(rawHeaders, 'host');
  const transferEncoding = valueOf(rawHeaders, 'transfer-encoding');
  const length = valueOf(rawHeaders, 'content-length');
  return {
    method: request.method ?? '',
    target: request.url ?? '',
    authority,
    headers: endToEnd(rawHeaders),
    hasBody: transferEncoding !== '' || (length !== '' && length !== '0'),
    expectsContinue,
    malformed: problemOf(request, transferEncoding),
  };
}

function problemOf(request: IncomingMessage, transferEncoding: string): string | undefined {
  const { httpVersion, rawHeaders, url = '' } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return `HTTP/${httpVersion} is not spoken here`;
  if (valuesOf(rawHeaders, 'host').length > 1) return 'the request has more than one Host';
  if (transferEncoding !== '' && transferEncoding.toLowerCase() !== 'chunked') {
    return 'the request has a Transfer-Encoding other than chunked';
  }
  if (transferEncoding !== '' && httpVersion === '1.0') return 'HTTP/1.0 has no Transfer-Encoding';
  if (url.includes('#')) return 'the request’s target has a fragment';
  return undefined;
}
