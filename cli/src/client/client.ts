/**
 * The API as the commands call it: JSON in, JSON out, refusals as `CliFailure` with the daemon's code.
 *
 * Answers are not validated here (a schema library would cost three times Node's start): the daemon is the operator's, and
 * the shapes are bound by the contract's tests. What would harm the caller anyway, sizes, has limits.
 */
import { keyPrefix } from '@squash/contract/key-token';
import { CliFailure, exitCodes } from '../failure.ts';
import { type Address, type AddressOptions, describeAddress, findDaemon } from './address.ts';
import type { HttpRequest, HttpResponse } from './http.ts';
import type { WebSocketConnection } from './websocket.ts';

/** Longest JSON answer: 10,000 sandboxes with all their snapshots and more. */
const answerBytesMax = 268_435_456;

export interface ClientOptions extends AddressOptions {
  readonly token?: string | undefined;
  /**
   * Resolves when a daemon whose launcher has ended has another one. Then what it refused for that is asked once more: the daemon has
   * done nothing of it, or the same again does no more.
   */
  readonly mended?: (() => Promise<void>) | undefined;
}

export type Query = Readonly<Record<string, string | number | undefined>>;

export class Client {
  readonly #options: ClientOptions;
  #address: Address | undefined;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** Found when first needed: commands that need no daemon look for none. */
  get address(): Address {
    this.#address ??= findDaemon(this.#options);
    return this.#address;
  }

  /** For `@squash/sdk`: the same daemon, and the same who asks. */
  get forSdk(): { readonly url: string; readonly token: string } {
    const { address } = this;
    const url = address.kind === 'unix' ? `unix:${address.path}` : describeAddress(address);
    return { url, token: this.#options.token ?? '' };
  }

  /** The same options, with the address still to be found: a daemon may have come since. */
  renewed(): Client {
    return new Client(this.#options);
  }

  async get<T>(path: string): Promise<T> {
    return (await this.#json({ method: 'GET', path })) as T;
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    return (await this.#json({
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(body)),
    })) as T;
  }

  async put<T>(path: string, body: unknown): Promise<T> {
    return (await this.#json({
      method: 'PUT',
      path,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(body)),
    })) as T;
  }

  async patch<T>(path: string, body: unknown): Promise<T> {
    return (await this.#json({
      method: 'PATCH',
      path,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(body)),
    })) as T;
  }

  async delete(path: string): Promise<void> {
    await this.#json({ method: 'DELETE', path });
  }

  /** Sends a stream of bytes. */
  async upload<T>(path: string, body: AsyncIterable<Uint8Array>, bytes: number | undefined): Promise<T> {
    const length = bytes === undefined ? {} : { 'content-length': `${bytes}` };
    const headers = { 'content-type': 'application/octet-stream', ...length };
    return (await this.#json({ method: 'PUT', path, headers, body })) as T;
  }

  /** The answer as it comes, for streams of events. */
  async open(path: string, headers: Readonly<Record<string, string>>): Promise<HttpResponse> {
    const response = await this.#send({ method: 'GET', path, headers });
    if (response.status >= 300) throw await this.#refusal(response);
    return response;
  }

  /** Bytes as they are, not more than so many. */
  async bytes(path: string, bytesMax: number): Promise<Buffer> {
    const { body } = await this.open(path, { accept: 'application/octet-stream' });
    const parts: Buffer[] = [];
    let length = 0;
    for await (const part of body()) {
      length += part.length;
      if (length > bytesMax)
        throw new CliFailure('unreachable', 'the answer is too long', exitCodes.unreachable);
      parts.push(part);
    }
    return Buffer.concat(parts);
  }

  async webSocket(path: string, subprotocol: string): Promise<WebSocketConnection> {
    const { openWebSocket } = await import('./websocket.ts');
    const headers = this.#authorization();
    const outcome = await openWebSocket(this.address, { path, subprotocol, headers });
    if (outcome.type === 'refused') throw await this.#refusal(outcome.response);
    return outcome.connection;
  }

  /**
   * The Unix socket's permissions are its token; whoever bound one there gets the operator's not from us. A key is sent there, too:
   * whoever has set one wants to be that key.
   */
  get token(): string | undefined {
    const { token = '' } = this.#options;
    const isWanted = token !== '' && (this.address.kind === 'tcp' || token.startsWith(keyPrefix));
    return isWanted ? token : undefined;
  }

  #authorization(): Readonly<Record<string, string>> {
    const { token } = this;
    return token === undefined ? {} : { authorization: `Bearer ${token}` };
  }

  async #send(request: HttpRequest): Promise<HttpResponse> {
    try {
      // Here and not above: commands that ask nobody don't pay for Node's sockets.
      const { sendRequest } = await import('./http.ts');
      return await sendRequest(this.address, {
        ...request,
        headers: { accept: 'application/json', ...this.#authorization(), ...request.headers },
      });
    } catch (cause) {
      if (cause instanceof CliFailure) throw cause;
      const detail = cause instanceof Error ? cause.message : String(cause);
      const where = describeAddress(this.address);
      throw new CliFailure(
        'unreachable',
        `the daemon at ${where} broke off: ${detail}`,
        exitCodes.unreachable,
      );
    }
  }

  async #json(request: HttpRequest): Promise<unknown> {
    const response = await this.#answered(request);
    const text = await readText(response);
    if (text === '') return undefined;
    try {
      return JSON.parse(text);
    } catch {
      const where = describeAddress(this.address);
      throw new CliFailure(
        'unreachable',
        `what answers at ${where} is no Squash daemon`,
        exitCodes.unreachable,
      );
    }
  }

  async #answered(request: HttpRequest): Promise<HttpResponse> {
    const response = await this.#send(request);
    if (response.status < 300) return response;
    const refusal = await this.#refusal(response);
    const { mended } = this.#options;
    const isStream = request.body !== undefined && !(request.body instanceof Uint8Array);
    if (refusal.code !== 'launcher_unavailable' || mended === undefined || isStream) throw refusal;
    await mended();
    const second = await this.#send(request);
    if (second.status >= 300) throw await this.#refusal(second);
    return second;
  }

  async #refusal(response: HttpResponse): Promise<CliFailure> {
    const text = await readText(response);
    const { code, message } = readRefusal(text);
    if (message !== undefined) return new CliFailure(code ?? `http_${response.status}`, message);
    const where = describeAddress(this.address);
    return new CliFailure(`http_${response.status}`, `${where} answers with status ${response.status}`);
  }
}

/** A path with each part escaped. */
export function apiPath(parts: readonly (string | number)[], query: Query = {}): string {
  const path = `/${parts.map((part) => encodeURIComponent(part)).join('/')}`;
  const pairs = Object.entries(query)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(`${value}`)}`);
  return pairs.length === 0 ? path : `${path}?${pairs.join('&')}`;
}

export const modulesPath = '/cgi-bin/api/modules';
/** All sandboxes: GET lists them, POST makes one. */
export const sandboxesPath = '/cgi-bin/api/sandboxes';

/** The address of a sandbox or of something in it. */
export function sandboxPath(id: string, more: readonly (string | number)[] = [], query: Query = {}): string {
  return apiPath(['cgi-bin', 'api', 'sandboxes', id, ...more], query);
}

/** The same sandboxes as `/v1` has them. */
export const nativeSandboxesPath = '/v1/sandboxes';

export function sandboxRecordPath(id: string, ...more: readonly string[]): string {
  return apiPath(['v1', 'sandboxes', id, ...more]);
}

/** Whether the daemon is of a release that has no such operation. */
export function isUnknownOperation(error: unknown): boolean {
  const codes = ['not_found', 'method_not_allowed', 'http_404', 'http_405'];
  return error instanceof CliFailure && codes.includes(error.code);
}

/** The address of a module, or of something about it. */
export function modulePath(name: string, more: readonly string[] = []): string {
  return apiPath(['v1', 'modules', name, ...more]);
}

/** The address of a sandbox's snapshots, of one, or of its file. */
export function snapshotPath(id: string, more: readonly string[] = []): string {
  return apiPath(['v1', 'sandboxes', id, 'snapshots', ...more]);
}

/** The address of a sandbox's files, or of something about them. */
export function filesPath(id: string, more: readonly string[] = [], query: Query = {}): string {
  return apiPath(['v1', 'sandboxes', id, 'files', ...more], query);
}

async function readText(response: HttpResponse): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of response.body()) {
    bytes += part.length;
    if (bytes > answerBytesMax)
      throw new CliFailure('unreachable', 'the answer is too long', exitCodes.unreachable);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** `{error, code}` under `/cgi-bin`, problem details under `/v1`. */
function readRefusal(text: string): { readonly code?: string; readonly message?: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // No JSON: a proxy's page. The status alone is told.
    return {};
  }
  if (typeof value !== 'object' || value === null) return {};
  const fields: Readonly<Record<string, unknown>> = { ...value };
  const message = [fields['error'], fields['detail'], fields['title']].find(
    (each) => typeof each === 'string',
  );
  const code = fields['code'];
  return { ...(typeof code === 'string' && { code }), ...(typeof message === 'string' && { message }) };
}
