/**
 * The daemon's API as an SSH session calls it: requests over kept connections, WebSockets, refusals as `ApiError` with the daemon's
 * code.
 *
 * Every session has its own credential; nothing here knows whose it is.
 */
import { Agent as HttpAgent, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { Agent as HttpsAgent, request as tlsRequest } from 'node:https';
import { connect } from 'node:net';
import { WebSocket } from 'ws';
import { bufferOf, Messages } from './messages.ts';

/** Where it listens. A socket's path must fit into an address. */
export type DaemonPlace =
  | { readonly kind: 'unix'; readonly path: string }
  | {
      readonly kind: 'tcp';
      readonly tls: boolean;
      readonly host: string;
      readonly port: number;
      readonly prefix: string;
    };

/** A refusal of the daemon's, or `unreachable`. */
export class ApiError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'ApiError';
    this.code = code;
  }
}

export interface ApiRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE';
  /** With its query. */
  readonly path: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly signal?: AbortSignal;
}

/** A page of a directory's entries and any other record; longer ones are none of ours. */
const answerBytesMax = 16_777_216;
const messageBytesMax = 1_048_576;
const handshakeMs = 30_000;

export class Daemon implements Disposable {
  readonly #place: DaemonPlace;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #agent: HttpAgent;

  /** @param headers sent with every request */
  constructor(place: DaemonPlace, token: string | undefined, headers: Readonly<Record<string, string>> = {}) {
    this.#place = place;
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
    this.#headers = { 'user-agent': 'squash-ssh', ...headers, ...authorization };
    this.#agent =
      place.kind === 'tcp' && place.tls
        ? new HttpsAgent({ keepAlive: true })
        : new HttpAgent({ keepAlive: true });
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }

  /** A request whose body is the caller's to write and to end; the answer may come before that. */
  start({ method, path, headers, signal }: ApiRequest) {
    const { kind } = this.#place;
    const where =
      kind === 'unix'
        ? { socketPath: this.#place.path, host: 'localhost' }
        : { host: this.#place.host, port: this.#place.port };
    const send = kind === 'tcp' && this.#place.tls ? tlsRequest : request;
    const outgoing = send({
      ...where,
      method,
      path: `${this.#prefix}${path}`,
      headers: { ...this.#headers, ...headers },
      agent: this.#agent,
      ...(signal === undefined ? {} : { signal }),
    });
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', resolve);
      outgoing.on('error', (cause) => reject(unreachable(cause)));
    });
    // Whoever writes the body may find out first; he asks for the answer then.
    answer.catch(() => undefined);
    return { outgoing, answer };
  }

  /** JSON in, JSON out. @throws ApiError */
  async json<T>(wish: ApiRequest, body?: unknown): Promise<T> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const length = { 'content-length': Buffer.byteLength(text ?? '') };
    const type = text === undefined ? {} : { 'content-type': 'application/json' };
    const headers = wish.method === 'GET' ? wish.headers : { ...length, ...type, ...wish.headers };
    const { outgoing, answer } = this.start({ ...wish, ...(headers === undefined ? {} : { headers }) });
    outgoing.end(text);
    return (await readJson(await answer)) as T;
  }

  /** @throws ApiError */
  webSocket(path: string, protocol: string): Promise<Messages> {
    const place = this.#place;
    const base =
      place.kind === 'unix'
        ? 'ws://localhost'
        : `${place.tls ? 'wss' : 'ws'}://${place.host.includes(':') ? `[${place.host}]` : place.host}:${place.port}`;
    const socket = new WebSocket(`${base}${this.#prefix}${path}`, protocol, {
      headers: this.#headers,
      perMessageDeflate: false,
      maxPayload: messageBytesMax,
      handshakeTimeout: handshakeMs,
      ...(place.kind === 'unix' ? { createConnection: () => connect(place.path) } : {}),
    });
    return new Promise((resolve, reject) => {
      socket.once('open', () => resolve(new Messages(socket)));
      socket.on('error', (cause) => reject(unreachable(cause)));
      socket.once('unexpected-response', (_request, response) => {
        refusalOf(response).then(reject, reject);
      });
    });
  }

  get #prefix(): string {
    return this.#place.kind === 'tcp' ? this.#place.prefix : '';
  }
}

/** @throws ApiError where it is a refusal */
export async function readJson(answer: IncomingMessage): Promise<unknown> {
  if ((answer.statusCode ?? 0) >= 300) throw await refusalOf(answer);
  const text = await readText(answer);
  return text === '' ? undefined : JSON.parse(text);
}

export async function refusalOf(answer: IncomingMessage): Promise<ApiError> {
  const text = await readText(answer);
  let fields: Readonly<Record<string, unknown>> = {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) fields = { ...value };
  } catch {
    // A proxy's page: the status alone is told.
  }
  const { code, detail, title } = fields;
  const message = [detail, title].find((each) => typeof each === 'string');
  const status = `${answer.statusCode ?? 0}`;
  return new ApiError(
    typeof code === 'string' ? code : `http_${status}`,
    message ?? `the daemon answers with status ${status}`,
  );
}

async function readText(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of answer) {
      const data = bufferOf(part as Buffer);
      bytes += data.length;
      if (bytes > answerBytesMax) throw new ApiError('unreachable', 'the daemon’s answer is too long');
      parts.push(data);
    }
  } catch (cause) {
    throw unreachable(cause);
  }
  return Buffer.concat(parts).toString();
}

function unreachable(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new ApiError('unreachable', `the daemon can't be reached: ${detail}`);
}

/** The address of a sandbox, or of something in it. */
export function sandboxPath(id: string, ...more: readonly string[]): string {
  return `/v1/sandboxes/${[id, ...more].map((part) => encodeURIComponent(part)).join('/')}`;
}
