/**
 * Requests over HTTP/1.1 to the server. Connections are kept for the next request of the same program's connection.
 */
import {
  Agent,
  type AgentOptions,
  type ClientRequest,
  type ClientRequestArgs,
  type IncomingMessage,
  request as httpRequest,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { errorText } from '@squash/base/bug';
import { Failure } from '@squash/base/failure';
import { lineOf, waitInLine } from '@squash/base/in-line';
import { endToEnd, fieldsOf, forHttp1, valuesOf, without } from './headers.ts';
import { interceptLimits } from './limits.ts';
import {
  type Answer,
  type HeaderList,
  type OutgoingRequest,
  type Upstream,
  type UpstreamExchange,
  UpstreamFailed,
} from './message.ts';
import { DialRefused } from '../ports.ts';

/** Methods for which Node takes a body for granted: without one it has to be told that there is none. */
const bodilessByDefault: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'DELETE',
  'OPTIONS',
  'TRACE',
  'CONNECT',
]);

/** Node's agent, with our way to connect. */
class DialingAgent extends Agent {
  readonly #connect: Connect;

  constructor(connect: Connect, options: AgentOptions) {
    super(options);
    this.#connect = connect;
  }

  /** @param asked what the request was opened with */
  override createConnection(asked: ClientRequestArgs, done?: Done): undefined {
    void this.#open((asked as RequestArgs).dialSignal, done);
    return undefined;
  }

  async #open(signal: AbortSignal, done: Done | undefined): Promise<void> {
    let socket: Duplex;
    try {
      socket = await this.#connect(signal);
    } catch (error) {
      // With an error the stream is not looked at.
      (done as ((error: unknown) => void) | undefined)?.(error);
      return;
    }
    done?.(null, socket);
  }
}

/** Node keeps `signal` to itself: it ends the request, and would not end the dial. */
interface RequestArgs extends ClientRequestArgs {
  readonly dialSignal: AbortSignal;
}

type Connect = (signal: AbortSignal) => Promise<Duplex>;
type Done = (error: Error | null, stream: Duplex) => void;

export class Http1Upstream implements Upstream {
  readonly #agent: Agent;
  /** Requests that may still begin. Node's own bound does not count connections that are being made. */
  #free: number;
  readonly #waiting = new Set<() => void>();

  /** @param connectionsMax how many requests may be under way at once */
  constructor(connect: Connect, connectionsMax: number) {
    this.#agent = new DialingAgent(connect, { keepAlive: true, maxFreeSockets: connectionsMax });
    this.#free = connectionsMax;
  }

  async send(outgoing: OutgoingRequest, signal: AbortSignal): Promise<UpstreamExchange> {
    await this.#turn(signal);
    if (signal.aborted) this.#next();
    signal.throwIfAborted();
    const request = openRequest(this.#agent, { ...outgoing, headers: framed(outgoing) }, signal);
    request.once('close', () => this.#next());
    return new Http1Exchange(request, outgoing);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    return Promise.resolve();
  }

  async #turn(signal: AbortSignal): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    await waitInLine(lineOf(this.#waiting), signal);
  }

  #next(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}

/** Opens a request that asks for another protocol; see `upgrade.ts`. */
export function openUpgrade(
  connect: Connect,
  { protocol, ...outgoing }: Outgoing & { readonly protocol: string },
  signal: AbortSignal,
): ClientRequest {
  const agent = new DialingAgent(connect, { keepAlive: false });
  const headers = ['Connection', 'Upgrade', 'Upgrade', protocol, ...outgoing.headers];
  return openRequest(agent, { ...outgoing, headers }, signal);
}

type Outgoing = Pick<OutgoingRequest, 'method' | 'target' | 'authority' | 'headers'>;

/** @param dialSignal ends the dial, where one is needed and not done; with it the request */
function openRequest(agent: Agent, outgoing: Outgoing, dialSignal: AbortSignal): ClientRequest {
  const asked: RequestArgs = {
    agent,
    dialSignal,
    method: outgoing.method,
    path: outgoing.target,
    headers: ['Host', outgoing.authority, ...outgoing.headers],
    maxHeaderSize: interceptLimits.headerBytesMax,
    insecureHTTPParser: false,
  };
  return httpRequest(asked);
}

/** The headers, with exactly one way to tell where the body ends. */
function framed({ method, headers, hasBody, expectsContinue }: OutgoingRequest): HeaderList {
  const list = forHttp1(headers);
  if (expectsContinue) list.push('Expect', '100-continue');
  const hasLength = valuesOf(list, 'content-length').length > 0;
  if (hasBody && !hasLength) list.push('Transfer-Encoding', 'chunked');
  if (!hasBody && !hasLength && !bodilessByDefault.has(method)) list.push('Content-Length', '0');
  return list;
}

class Http1Exchange implements UpstreamExchange {
  readonly sink: ClientRequest;
  readonly answer: Promise<Answer>;

  constructor(request: ClientRequest, outgoing: OutgoingRequest) {
    this.sink = request;
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    this.answer = promise;
    request.on('response', (message) => resolve(answerOf(message, outgoing.method)));
    request.on('error', (error) => reject(failureOf(error)));
    request.on('close', () => reject(new UpstreamFailed('the server hung up without an answer')));
    request.on('continue', outgoing.onContinue);
    let early = 0;
    request.on('information', ({ statusCode, rawHeaders }) => {
      early += 1;
      if (early > interceptLimits.earlyMax)
        return void request.destroy(new Failure('early_answers', 'early answers without end'));
      // 100 comes as `continue`, 101 as `upgrade`.
      if (statusCode > 101) outgoing.onEarly(statusCode, endToEnd(rawHeaders));
    });
    // A server that switches protocols without being asked is not understood.
    request.on('upgrade', (_message, socket) => socket.destroy());
    if (!outgoing.hasBody) request.end();
    else if (outgoing.expectsContinue) request.flushHeaders();
  }

  finish(trailers: HeaderList): void {
    // Without chunks there is no place for them.
    if (trailers.length > 0 && this.sink.getHeader('content-length') === undefined) {
      this.sink.addTrailers(
        Array.from(fieldsOf(trailers), ([name, value]): [string, string] => [name, value]),
      );
    }
    this.sink.end();
  }

  abort(): void {
    this.sink.destroy();
  }
}

export function answerOf(message: IncomingMessage, method: string): Answer {
  const status = message.statusCode ?? 502;
  const hasBody = method !== 'HEAD' && status !== 204 && status !== 304;
  return {
    head: {
      status,
      reason: message.statusMessage ?? '',
      headers: without(endToEnd(message.rawHeaders), 'alt-svc'),
      hasBody,
    },
    body: message,
    trailers: () => endToEnd(message.rawTrailers),
  };
}

export function failureOf(error: unknown): Error {
  if (error instanceof DialRefused || error instanceof UpstreamFailed) return error;
  return new UpstreamFailed(`the server’s answer can not be used: ${errorText(error)}`, { cause: error });
}
