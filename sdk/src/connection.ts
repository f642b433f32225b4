/**
 * Operations of the contract as calls: an id and what it takes become a request, the answer a record, a stream of bytes, or an error.
 * Everything above it says which operation it calls; nothing above it knows HTTP.
 *
 * The daemon (or whatever stands at its address) is trusted with nothing: what it answers is bounded in size and silence.
 */
import { keyPrefix } from '@squash/contract/key-token';
import { type Address, parseAddress } from './address.ts';
import { badRequest, NotFound, SquashError, Unreachable } from './errors.ts';
import { fetchTransport } from './fetch-transport.ts';
import { httpTransport } from './http-transport.ts';
import { localDaemon, reachableSocketPath } from './local-daemon.ts';
import { type NodeParts, nodeParts } from './node-parts.ts';
import { operations } from './operations.gen.ts';
import type { Operations } from './records.gen.ts';
import { parseJson, readWhole, refusalOf } from './answers.ts';
import { protocolError } from './protocol-error.ts';
import { type Transport, type Upload, type WireAnswer } from './transport.ts';

export interface ConnectionOptions {
  /** `http://host:port`, `https://host/path` or `unix:/path`. Without it: SQUASH_SOCKET, SQUASH_API, the local daemon's socket, port 8080. */
  readonly url?: string | undefined;
  /** A key or the daemon's token; without it SQUASH_AUTH_TOKEN. */
  readonly token?: string | undefined;
  /** The longest silence that is borne, in milliseconds; 60,000 unless given. Calls that wait for something add what they wait for. */
  readonly timeout_ms?: number | undefined;
}

/** For calls that take nothing else. */
export interface Signal {
  /** Stops waiting; what the daemon has accepted it carries out all the same. */
  readonly signal?: AbortSignal | undefined;
}

export type OperationId = keyof Operations;

export interface CallOptions<Id extends OperationId> extends Signal {
  readonly path?: Operations[Id]['path'];
  readonly query?: Operations[Id]['query'];
  readonly body?: Operations[Id]['body'];
  /** The bytes of an operation that takes a file. */
  readonly upload?: Upload;
  readonly headers?: Readonly<Record<string, string>>;
  /** How long the operation itself may take before it answers, beyond the silence that is borne anyway. Milliseconds. */
  readonly takesMs?: number;
}

/** A sandbox that starts may have to unpack its layers first. Milliseconds. */
export const startMsMax = 600_000;

const silenceMsDefault = 60_000;
/** Of an answer that is read whole. The longest that is promised is a command's 4 MiB of output, six bytes each in JSON. */
const answerBytesMax = 67_108_864;
/** Before each new attempt where a connection broke: a daemon that starts again is back after one or two seconds. */
const pausesMs = [250, 1_000, 3_000];

export class Connection {
  readonly address: Address;
  readonly #silenceMsMax: number;
  readonly #authorization: Readonly<Record<string, string>>;
  readonly #transport: Transport;

  /** `transport`: instead of the one that this runtime takes. */
  constructor(options: ConnectionOptions = {}, transport?: Transport) {
    const node = nodeParts();
    this.address = options.url === undefined ? findDaemon(node) : parseAddress(options.url, 'url');
    this.#silenceMsMax = options.timeout_ms ?? silenceMsDefault;
    if (!(this.#silenceMsMax > 0)) throw badRequest('timeout_ms is more than 0');
    this.#authorization = authorization(this.address, options.token ?? node?.env['SQUASH_AUTH_TOKEN'] ?? '');
    this.#transport = transport ?? transportTo(this.address);
  }

  close(): void {
    this.#transport.close();
  }

  /** Calls an operation whose answer is a record. @throws SquashError */
  async call<Id extends OperationId>(
    id: Id,
    options: CallOptions<Id> = {},
  ): Promise<Operations[Id]['answer']> {
    return await this.#repeated(id, options, async (answer) => {
      const text = await readWhole(answer, answerBytesMax);
      // What has no answer is 204, without a body.
      const record = text.length === 0 && answer.status === 204 ? undefined : parseJson(text, this.address);
      return record as Operations[Id]['answer'];
    });
  }

  /** Calls an operation whose answer is bytes or a stream. @throws SquashError */
  async open<Id extends OperationId>(id: Id, options: CallOptions<Id> = {}): Promise<WireAnswer> {
    return await this.#repeated(id, options, (answer) => Promise.resolve(answer));
  }

  /**
   * Sends it again where the connection broke, if that does no harm: what only reads, and what carries a key by which the daemon knows
   * it again, and what removes. A daemon that was not there at the first attempt is told at once.
   */
  async #repeated<Id extends OperationId, T>(
    id: Id,
    options: CallOptions<Id>,
    read: (answer: WireAnswer) => Promise<T>,
  ): Promise<T> {
    const { method, ...operation } = operations[id];
    const removes = method === 'DELETE';
    const key = 'once' in operation ? { 'idempotency-key': randomKey() } : {};
    const path = pathOf(id, options);
    const mayRepeat = method === 'GET' || removes || 'once' in operation;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await read(await this.#once(id, options, key));
      } catch (error) {
        // The one before it was carried out, and its answer was lost.
        if (removes && attempt > 0 && error instanceof NotFound) return undefined as T;
        if (error instanceof SquashError) error.of(`${method} ${path}`);
        const pauseMs = pausesMs[attempt];
        const isWorthIt =
          error instanceof Unreachable &&
          (error.how === 'broken_off' || (error.how === 'not_there' && attempt > 0));
        if (!mayRepeat || !isWorthIt || pauseMs === undefined) throw error;
        await pause(pauseMs, options.signal);
      }
    }
  }

  async #once<Id extends OperationId>(
    id: Id,
    options: CallOptions<Id>,
    key: Readonly<Record<string, string>>,
  ): Promise<WireAnswer> {
    const { method } = operations[id];
    const path = pathOf(id, options);
    const answer = await this.#transport.send({
      method,
      path,
      ...bodyOf(options, { accept: 'application/json', ...this.#authorization, ...key, ...options.headers }),
      silenceMsMax: this.#silenceMsMax + (options.takesMs ?? 0),
      signal: options.signal,
    });
    if (answer.status >= 200 && answer.status < 300) return answer;
    const asked = { id, request: `${method} ${path}`, address: this.address };
    throw await refusalOf(answer, asked, () => this.#daemonVersion());
  }

  /** For the sentence that says it is too old; undefined where it does not even say that. */
  async #daemonVersion(): Promise<string | undefined> {
    try {
      const { version } = await this.call('daemon.info');
      return typeof version === 'string' ? version : undefined;
    } catch {
      // It has not this operation either, or we may not ask: then the sentence names one version.
      return undefined;
    }
  }
}

/** @throws what the signal says, when it does */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}

let shared: Connection | undefined;

/** The one made from the environment, for all who name none. */
export function sharedConnection(): Connection {
  shared ??= new Connection();
  return shared;
}

/** What the environment names, else this machine's; in a browser the page's own host. */
function findDaemon(node: NodeParts | undefined): Address {
  if (node === undefined) return parseAddress('/', 'the page');
  const { SQUASH_SOCKET: socket, SQUASH_API: url } = node.env;
  if (socket) return { kind: 'unix', path: node.path.resolve(socket) };
  if (url) return parseAddress(url, 'SQUASH_API');
  const found = localDaemon(node);
  return found.kind === 'unix' ? found : { kind: 'tcp', base: `http://127.0.0.1:${found.port}` };
}

function transportTo(address: Address): Transport {
  const node = nodeParts();
  if (node === undefined) {
    if (address.kind === 'unix') throw badRequest('a browser opens no Unix sockets: name an address of HTTP');
    return fetchTransport(address, { canStream: false });
  }
  const { Deno, Bun } = globalThis as { readonly Deno?: unknown; readonly Bun?: unknown };
  // Deno's `fetch` speaks to a socket as to a proxy, with whole addresses that a server need not know.
  if (Bun === undefined && (Deno === undefined || address.kind === 'unix'))
    return httpTransport(node, address);
  if (address.kind === 'tcp') return fetchTransport(address, { canStream: true });
  // Open as long as the transport is, where it stands for a path that is too long.
  const { path, release } = reachableSocketPath(node, address.path);
  return fetchTransport(address, { canStream: true, socket: { unix: path }, close: release });
}

/**
 * A Unix socket's permissions are its token; whoever bound one there gets the operator's not from us. A key is sent there, too: whoever has
 * set one wants to be that key.
 */
function authorization(address: Address, token: string): Readonly<Record<string, string>> {
  if (/[^\x21-\x7e]/.test(token)) throw badRequest('the token has characters that no token has');
  const isWanted = token !== '' && (address.kind === 'tcp' || token.startsWith(keyPrefix));
  return isWanted ? { authorization: `Bearer ${token}` } : {};
}

/** Not `randomUUID`, which pages without TLS have not. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function pathOf<Id extends OperationId>(id: Id, options: CallOptions<Id>): string {
  const values: Readonly<Record<string, unknown>> = options.path ?? {};
  const path = operations[id].path.replaceAll(/\{(\w+)\}/g, (_all, name: string) =>
    segment(name, values[name]),
  );
  const query = Object.entries(options.query ?? {})
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return query.length === 0 ? path : `${path}?${query.join('&')}`;
}

/** A dot or two would be taken for a way up by whoever carries the request. */
function segment(name: string, value: unknown): string {
  const isName = (typeof value === 'string' && !/^\.{0,2}$/.test(value)) || typeof value === 'number';
  if (!isName) throw badRequest(`${name} is ${JSON.stringify(value)}: it names nothing`);
  return encodeURIComponent(value);
}

type Sent = Pick<Parameters<Transport['send']>[0], 'headers' | 'body'>;

function bodyOf(
  { body, upload }: Pick<CallOptions<OperationId>, 'body' | 'upload'>,
  headers: Readonly<Record<string, string>>,
): Sent {
  if (upload !== undefined) {
    const typed = { 'content-type': 'application/octet-stream', ...headers };
    return typeof upload === 'string'
      ? { headers: typed, body: new TextEncoder().encode(upload) }
      : { headers: typed, body: upload };
  }
  if (body === undefined) return { headers };
  const text = JSON.stringify(body);
  return {
    headers: { 'content-type': 'application/json', ...headers },
    body: new TextEncoder().encode(text),
  };
}

/** The field of a record that a program is to work with. @throws ProtocolError where it has none, or of another type */
export function fieldOf(record: unknown, name: string, type: 'string' | 'number' | 'object'): unknown {
  const value = typeof record === 'object' && record !== null ? Reflect.get(record, name) : undefined;
  if (typeof value === type && value !== null) return value;
  throw protocolError(`the daemon's answer has no ${name}`);
}
