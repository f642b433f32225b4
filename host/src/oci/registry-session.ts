/** Requests about one repository of a registry, with the login that it wants, and again where the network failed. */
import { pause } from '@squash/base/pause';
import { AppError } from '@squash/contract/errors';
import type { ImageReference } from '@squash/contract/image-reference';
import type { RegistryConfig } from '../config/config.ts';
import { readBody } from './read-text.ts';
import { Authorization, readLogin } from './registry-login.ts';
import { type Answered, type Asked, hostOf, RegistryRequests } from './registry-request.ts';

/** In a row, without a byte between them. */
const failuresMax = 4;
const retryMs = 250;
const errorBytesMax = 16_384;

export interface SessionAsked extends Pick<Asked, 'method' | 'headers' | 'body'> {
  /** In the repository, such as `blobs/sha256:…`, or where the registry has sent us. */
  readonly what: string | URL;
  /** Answers that are none of success and are told all the same. */
  readonly told?: readonly number[];
}

/** What for: the words of errors, and what a token is asked for. */
type Purpose = 'have' | 'push';

interface SessionOptions {
  readonly reference: ImageReference;
  readonly requests: RegistryRequests;
  readonly authorization: Authorization;
  /** Over plain HTTP. */
  readonly isPlain: boolean;
  readonly purpose: Purpose;
}

/** @throws registry_credentials_unreadable */
export async function openSession(
  reference: ImageReference,
  { registries, purpose }: { readonly registries: RegistryConfig; readonly purpose: Purpose },
): Promise<RegistrySession> {
  const { registry: host, repository } = reference;
  const login = await readLogin(registries.authFile, { host, repository });
  const place = { host, insecure: new Set(registries.insecure) };
  const requests = new RegistryRequests(place);
  const actions = purpose === 'push' ? 'pull,push' : undefined;
  return new RegistrySession({
    reference,
    requests,
    authorization: new Authorization(login, requests, { ...place, actions }),
    isPlain: place.insecure.has(hostOf(place)),
    purpose,
  });
}

export class RegistrySession {
  readonly #options: SessionOptions;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  get reference(): ImageReference {
    return this.#options.reference;
  }

  /** Again where the network or the registry failed, while something comes now and then. */
  async patiently<T>(signal: AbortSignal, body: () => Promise<T>, bytes: () => number = () => 0): Promise<T> {
    let before = bytes();
    for (let failures = 1; ; failures += 1) {
      try {
        return await body();
      } catch (error) {
        signal.throwIfAborted();
        if (bytes() > before) failures = 1;
        before = bytes();
        if (!(error instanceof AppError) || error.code !== 'registry_unavailable' || failures >= failuresMax)
          throw error;
        await pause(retryMs * 2 ** failures, signal);
      }
    }
  }

  /** @throws registry_denied, registry_unavailable */
  async ask({ what, told = [], ...asked }: SessionAsked, signal: AbortSignal): Promise<Answered> {
    const { requests, authorization } = this.#options;
    const url = typeof what === 'string' ? this.#urlOf(what) : what;
    for (let isLoggedIn = false; ; isLoggedIn = true) {
      const headers = { ...asked.headers, ...authorization.headers };
      const answer = await requests.send({ ...asked, url, headers }, signal);
      if (answer.status < 300 || told.includes(answer.status)) return answer;
      // Where it has sent us nobody may ask who we are: the answer would be the registry's password.
      if (answer.status === 401 && !isLoggedIn && answer.url.host === url.host && requests.isRegistry(url)) {
        answer.body.destroy();
        await authorization.answer(
          answer.header('www-authenticate'),
          this.#options.reference.repository,
          signal,
        );
      } else throw this.#refusalOf(answer, await textOf(answer));
    }
  }

  #urlOf(what: string): URL {
    const { reference, isPlain } = this.#options;
    const { registry, repository } = reference;
    return new URL(`${isPlain ? 'http' : 'https'}://${hostOf({ host: registry })}/v2/${repository}/${what}`);
  }

  #refusalOf({ status, url }: Answered, text: string): AppError {
    const { purpose, reference } = this.#options;
    const said = saidIn(text);
    const why = `${url.host} answers with status ${status}${said === '' ? '' : ` (${said})`}`;
    const isDenied =
      purpose === 'push'
        ? status >= 400 && status < 500 && ![408, 429].includes(status)
        : [401, 403, 404].includes(status);
    return new AppError(
      isDenied ? 'registry_denied' : 'registry_unavailable',
      `Cannot ${purpose} image "${reference.name}": ${why}`,
    );
  }
}

async function textOf(answer: Answered): Promise<string> {
  const bytes = await readBody(answer, errorBytesMax).catch(() => Buffer.alloc(0));
  return bytes.toString('utf8');
}

/** The registry's own words, as plain text. */
function saidIn(text: string): string {
  const words = [...text.matchAll(/"(?:code|message)"\s*:\s*"([^"]{1,100})"/g)].map(
    (match) => match[1] ?? '',
  );
  return words
    .slice(0, 2)
    .join(': ')
    .replaceAll(/[^\x20-\x7e]/g, '?');
}
