/**
 * Who we are to a registry: a login from the file that docker and podman write, and the tokens that registries ask for.
 *
 * The file is read for each pull, so that a new login needs no new daemon. It is never shown, nor any part of it.
 */
import { readFile, stat } from 'node:fs/promises';
import { z } from 'zod';
import { Secret } from '@squash/base/secret';
import { AppError } from '@squash/contract/errors';
import { safeParse } from '@squash/contract/safe-parse';
import { readText } from './read-text.ts';
import { type Asked, hostOf, type RegistryPlace, type RegistryRequests } from './registry-request.ts';

const fileBytesMax = 1_048_576;
const tokenBytesMax = 65_536;

const loginSchema = z.object({
  auth: z.string().optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  identitytoken: z.string().optional(),
  registrytoken: z.string().optional(),
});
const fileSchema = z.object({
  auths: z.record(z.string(), loginSchema).default({}),
  credsStore: z.string().optional(),
  credHelpers: z.record(z.string(), z.string()).default({}),
});

export type Login =
  | { readonly kind: 'none' }
  | { readonly kind: 'password'; readonly user: string; readonly password: Secret }
  /** A token for tokens, from a login in a browser. */
  | { readonly kind: 'refresh'; readonly token: Secret }
  | { readonly kind: 'bearer'; readonly token: Secret };

/** @param path undefined: nobody is logged in. @throws registry_credentials_unreadable */
export async function readLogin(
  path: string | undefined,
  { host, repository }: { readonly host: string; readonly repository: string },
): Promise<Login> {
  if (path === undefined) return { kind: 'none' };
  const file = parse(await read(path), path);
  for (const key of keysOf(host, repository)) {
    const found = Object.entries(file.auths).find(([own]) => plain(own) === key);
    const login = found === undefined ? undefined : loginOf(found[1], path);
    if (login !== undefined) return login;
    if (file.credHelpers[key] !== undefined)
      throw unreadable(
        path,
        `it leaves ${key} to a helper program, which the daemon does not run: log in without one`,
      );
  }
  return { kind: 'none' };
}

async function read(path: string): Promise<string> {
  try {
    if ((await stat(path)).size > fileBytesMax) throw unreadable(path, 'it is too large');
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof AppError) throw error;
    const { code = '' } = error as NodeJS.ErrnoException;
    const why =
      code === 'ENOENT'
        ? 'there is no such file'
        : code === 'EACCES'
          ? 'the daemon may not read it: where root starts Squash it has an id of its own, that of the data directory'
          : `it can’t be read (${code})`;
    throw unreadable(path, why);
  }
}

/** Without what a parser quotes of it. */
function parse(text: string, path: string): z.infer<typeof fileSchema> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw unreadable(path, 'it is no JSON');
  }
  const parsed = fileSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw unreadable(path, 'it is not in the form of docker’s config.json');
}

function loginOf(
  { auth, username, password, identitytoken, registrytoken }: z.infer<typeof loginSchema>,
  path: string,
): Login | undefined {
  if (identitytoken !== undefined && identitytoken !== '')
    return { kind: 'refresh', token: new Secret(identitytoken) };
  if (registrytoken !== undefined && registrytoken !== '')
    return { kind: 'bearer', token: new Secret(registrytoken) };
  if (username !== undefined && password !== undefined)
    return { kind: 'password', user: username, password: new Secret(password) };
  if (auth === undefined || auth === '') return undefined;
  const text = Buffer.from(auth, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  if (colon < 1) throw unreadable(path, 'it has an "auth" that is no user and password');
  return {
    kind: 'password',
    user: text.slice(0, colon),
    password: new Secret(text.slice(colon + 1).replace(/\0+$/, '')),
  };
}

/** The most exact first: podman logs in to a part of a registry, too. */
function keysOf(host: string, repository: string): readonly string[] {
  const parts = repository.split('/');
  const below = parts.map((_, at) => [host, ...parts.slice(0, parts.length - at)].join('/'));
  const own = host === 'docker.io' ? ['docker.io', 'index.docker.io', 'registry-1.docker.io'] : [host];
  return [...below, ...own];
}

/** Docker’s keys may be addresses: `https://index.docker.io/v1/`. */
function plain(key: string): string {
  return key
    .replace(/^https?:\/\//, '')
    .replace(/\/(v[12]\/?)?$/, '')
    .toLowerCase();
}

function unreadable(path: string, why: string): AppError {
  return new AppError(
    'registry_credentials_unreadable',
    `Cannot use SQUASH_REGISTRY_AUTH_FILE, which is "${path}": ${why}`,
  );
}

export interface LoginPlace extends RegistryPlace {
  /** All that a token is to be good for, whatever the first refusal asks for; undefined: that. */
  readonly actions?: string | undefined;
}

/** The header that a registry wants, found out by its first refusal. */
export class Authorization {
  readonly #login: Login;
  readonly #requests: RegistryRequests;
  readonly #place: LoginPlace;
  #header: Secret | undefined;

  constructor(login: Login, requests: RegistryRequests, place: LoginPlace) {
    this.#login = login;
    this.#requests = requests;
    this.#place = place;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#header === undefined ? {} : { authorization: this.#header.reveal() };
  }

  /** @param challenge `WWW-Authenticate` of a 401. @throws registry_denied, registry_unavailable */
  async answer(challenge: string | undefined, repository: string, signal: AbortSignal): Promise<void> {
    const { scheme, words } = parseChallenge(challenge ?? '');
    if (scheme === 'basic' && this.#login.kind === 'password') this.#header = basic(this.#login);
    else if (scheme === 'bearer' && this.#login.kind === 'bearer') this.#header = bearer(this.#login.token);
    else if (scheme === 'bearer') this.#header = bearer(await this.#token(words, repository, signal));
    else throw this.#denied('it wants a login, and there is none for it in SQUASH_REGISTRY_AUTH_FILE');
  }

  async #token(words: ReadonlyMap<string, string>, repository: string, signal: AbortSignal): Promise<Secret> {
    const realm = URL.parse(words.get('realm') ?? '');
    if (realm === null) throw this.#denied('it asks for a token and does not say from where');
    const answer = await this.#requests.sendToTokens(this.#tokenRequest(realm, words, repository), signal);
    const text = await readText(answer, tokenBytesMax);
    if (answer.status !== 200) throw this.#denied(`${realm.host} gives no token (status ${answer.status})`);
    const parsed = safeParse(tokenSchema, jsonOf(text));
    const token = parsed.data?.token ?? parsed.data?.access_token;
    if (token === undefined || !/^[\x21-\x7e]+$/.test(token))
      throw this.#denied(`${realm.host} answers with no token`);
    return new Secret(token);
  }

  #tokenRequest(realm: URL, words: ReadonlyMap<string, string>, repository: string): Asked {
    const { actions } = this.#place;
    const wanted = actions === undefined ? words.get('scope') : undefined;
    const fields = {
      service: words.get('service') ?? hostOf(this.#place),
      scope: wanted ?? `repository:${repository}:${actions ?? 'pull'}`,
    };
    if (this.#login.kind === 'refresh') {
      const form = {
        ...fields,
        grant_type: 'refresh_token',
        client_id: 'squash',
        refresh_token: this.#login.token.reveal(),
      };
      const headers = { 'content-type': 'application/x-www-form-urlencoded' };
      return { url: realm, method: 'POST', headers, body: new URLSearchParams(form).toString() };
    }
    for (const [name, value] of Object.entries(fields)) realm.searchParams.set(name, value);
    const headers = this.#login.kind === 'password' ? { authorization: basic(this.#login).reveal() } : {};
    return { url: realm, headers };
  }

  #denied(why: string): AppError {
    return new AppError('registry_denied', `Cannot use registry "${this.#place.host}": ${why}`);
  }
}

const tokenSchema = z.object({ token: z.string().optional(), access_token: z.string().optional() });

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function basic({ user, password }: { readonly user: string; readonly password: Secret }): Secret {
  return new Secret(`Basic ${Buffer.from(`${user}:${password.reveal()}`).toString('base64')}`);
}

function bearer(token: Secret): Secret {
  return new Secret(`Bearer ${token.reveal()}`);
}

/** `Bearer realm="…",service="…",scope="…"`. */
function parseChallenge(text: string): {
  readonly scheme: string;
  readonly words: ReadonlyMap<string, string>;
} {
  const [scheme = ''] = text.split(' ', 1);
  const words = new Map<string, string>();
  for (const match of text.slice(scheme.length, 8_192).matchAll(/([a-zA-Z_]+)="([^"]*)"/g)) {
    words.set((match[1] ?? '').toLowerCase(), match[2] ?? '');
  }
  return { scheme: scheme.toLowerCase(), words };
}
