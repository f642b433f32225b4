/**
 * One request to a registry, or to where a registry sends us: its token service, or the store that its blobs lie in.
 *
 * The registry itself is the operator's choice, in whatever network it is. What it sends us to is the registry's: that gets no
 * credentials unless it is the registry, is spoken to over TLS unless it is on the list of hosts that are not, and may not be
 * in a network of the host's own where the registry is not: else an image's name would be a way to ask the machine's services.
 */
import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { type IncomingMessage, request as plainRequest } from 'node:http';
import { request as tlsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Failure } from '@squash/base/failure';
import { AppError } from '@squash/contract/errors';
import { parseAddress } from '@squash/policy/address/address';
import { type AddressKind, classifyAddress } from '@squash/policy/address/ranges';

const headerBytesMax = 65_536;
const redirectsMax = 5;
/** For the head of an answer, and between two pieces of its body. */
export const silentMsMax = 30_000;

export interface Asked {
  readonly url: URL;
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH';
  readonly headers?: Readonly<Record<string, string>>;
  /** Of its length; or so many bytes, opened for each try. */
  readonly body?: string | SentBytes;
}

export interface SentBytes {
  readonly bytes: number;
  readonly open: () => Readable;
}

export interface Answered {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  /** To be read to its end, or destroyed. */
  readonly body: IncomingMessage;
  /** Where it came from at last. */
  readonly url: URL;
}

export interface RegistryPlace {
  /** `host[:port]`, as it is asked for. */
  readonly host: string;
  /** Hosts that are spoken to over plain HTTP. */
  readonly insecure: ReadonlySet<string>;
}

/** Follows redirections, with the registry's credentials to the registry alone. */
export class RegistryRequests {
  readonly #place: RegistryPlace;
  /** What kinds of addresses the registry itself has answered from; its name may have others, which are anybody's. */
  readonly #kinds = new Set<AddressKind>();

  constructor(place: RegistryPlace) {
    this.#place = place;
  }

  /** Where something is sent no redirection is followed: it is an answer. @throws registry_unavailable; the signal's reason */
  async send(asked: Asked, signal: AbortSignal): Promise<Answered> {
    let { url } = asked;
    for (let redirects = 0; ; redirects += 1) {
      const answer = await this.#once({ ...asked, url }, signal);
      const location = answer.header('location');
      const isRedirection = [301, 302, 303, 307, 308].includes(answer.status) && location !== undefined;
      if (!isRedirection || asked.body !== undefined) return answer;
      answer.body.destroy();
      const next = URL.parse(location, url.href);
      if (next === null || redirects === redirectsMax)
        throw this.#unavailable('it sends us from place to place');
      url = next;
    }
  }

  /** To the registry's token service, which is another's host more often than not, and gets what it is sent. */
  async sendToTokens(asked: Asked, signal: AbortSignal): Promise<Answered> {
    return await this.#once(asked, signal, true);
  }

  async #once(asked: Asked, signal: AbortSignal, isForIt = false): Promise<Answered> {
    const { url, method = 'GET', body } = asked;
    this.#checkScheme(url);
    const isOwn = isForIt || this.isRegistry(url);
    const literal = parseAddress(url.hostname.replace(/^\[(.*)\]$/, '$1'));
    if (literal !== undefined) this.#judge(url, [classifyAddress(literal).kind]);
    const headers = isOwn ? asked.headers : withoutCredentials(asked.headers);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const outgoing = (url.protocol === 'https:' ? tlsRequest : plainRequest)(url, {
      method,
      agent: false,
      signal,
      timeout: silentMsMax,
      maxHeaderSize: headerBytesMax,
      lookup: this.#lookup(url),
      headers: {
        'user-agent': 'squash',
        ...headers,
        ...(body !== undefined && { 'content-length': `${lengthOf(body)}` }),
      },
    });
    outgoing.on('timeout', () => outgoing.destroy(new Failure('ETIMEDOUT', 'nothing came for too long')));
    outgoing.on('response', (response) => {
      const { remoteAddress } = response.socket;
      if (this.isRegistry(url) && remoteAddress !== undefined) this.#kinds.add(kindOf(remoteAddress));
      resolve(response);
    });
    outgoing.on('error', reject);
    if (typeof body === 'object')
      // What breaks is told by the request.
      void pipeline(body.open(), outgoing).catch((error: Error) => outgoing.destroy(error));
    else outgoing.end(body);
    const answer = await promise.catch((cause: unknown) => {
      signal.throwIfAborted();
      if (cause instanceof AppError) throw cause;
      throw this.#unavailable(`${url.host} ${cause instanceof Error ? reasonOf(cause) : 'fails'}`, cause);
    });
    // A body that breaks off is told by whoever reads it.
    answer.on('error', () => undefined);
    const header = (name: string): string | undefined => {
      const value = answer.headers[name];
      return typeof value === 'string' ? value : undefined;
    };
    return { status: answer.statusCode ?? 0, header, body: answer, url };
  }

  #checkScheme({ protocol, host, username, password }: URL): void {
    const isInsecure = this.#place.insecure.has(host);
    if (username !== '' || password !== '')
      throw this.#unavailable(`it sends us to ${host} with credentials in the address`);
    if (protocol === 'https:' || (protocol === 'http:' && isInsecure)) return;
    throw this.#unavailable(
      `it sends us to ${protocol}//${host}, which is not in SQUASH_INSECURE_REGISTRIES`,
    );
  }

  /** Names are resolved once, and what was judged is what is dialled. */
  #lookup(url: URL): LookupFunction {
    return (name, options, done) => {
      const tell = (found: readonly LookupAddress[], error: NodeJS.ErrnoException | null): void => {
        const [first] = found;
        if (options.all === true) done(error, [...found]);
        else done(error, first?.address ?? '', first?.family);
      };
      const judged = async (): Promise<void> => {
        try {
          const found = await lookup(name, { ...options, all: true });
          this.#judge(
            url,
            found.map(({ address }) => kindOf(address)),
          );
          tell(found, null);
        } catch (error) {
          tell([], error as NodeJS.ErrnoException);
        }
      };
      void judged();
    };
  }

  /** Addresses leave the port out that is their scheme's own, and names of images do not. */
  isRegistry({ protocol, host }: URL): boolean {
    return host === URL.parse(`${protocol}//${hostOf(this.#place)}`)?.host;
  }

  #judge(url: URL, kinds: readonly AddressKind[]): void {
    if (this.isRegistry(url)) return;
    const strange = kinds.find((kind) => kind !== 'public' && !this.#kinds.has(kind));
    if (strange !== undefined)
      throw this.#unavailable(
        `it sends us to ${url.host}, whose address is ${strange}, as the registry’s own is not`,
      );
  }

  #unavailable(what: string, cause?: unknown): AppError {
    return new AppError('registry_unavailable', `Cannot use registry "${this.#place.host}": ${what}`, {
      cause,
    });
  }
}

/** Docker Hub's registry has another name than its images. */
export function hostOf({ host }: Pick<RegistryPlace, 'host'>): string {
  return host === 'docker.io' ? 'registry-1.docker.io' : host;
}

function kindOf(address: string): AddressKind {
  const parsed = parseAddress(address);
  return parsed === undefined ? 'reserved' : classifyAddress(parsed).kind;
}

function lengthOf(body: string | SentBytes): number {
  return typeof body === 'string' ? Buffer.byteLength(body) : body.bytes;
}

function withoutCredentials(
  headers: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'authorization'));
}

const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: 'has no address',
  EAI_AGAIN: 'can’t be looked up: no name server answers',
  ECONNREFUSED: 'refuses the connection',
  ETIMEDOUT: 'does not answer',
  ECONNRESET: 'broke off',
  EPROTO: 'does not speak TLS: list it in SQUASH_INSECURE_REGISTRIES if it is to be spoken to without',
};

export function reasonOf(error: NodeJS.ErrnoException): string {
  const { code = '' } = error;
  return reasons[code] ?? `fails (${code === '' ? error.message : code})`;
}
