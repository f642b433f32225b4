/**
 * The secrets of one sandbox as traffic meets them: which placeholder means what, who may have it, and what to look
 * for on the way back. Immutable: an edit of `secrets.json` makes new ones, and so does a token that was refreshed.
 */
import { type DestinationPattern, parsePattern } from '@squash/contract/destination';
import { type Secret, type SecretSurface, secretSurfaces } from '@squash/contract/secrets';
import type { Destination } from '@squash/policy/policy';
import type { Credential } from './credentials.ts';
import { Matcher } from './matcher.ts';
import { CredentialFailed } from './token-request.ts';
import { type ValueForm, valueForms } from './value-forms.ts';

/** On these plain HTTP is a mistake, or somebody's trick. */
const tlsPorts: ReadonlySet<number> = new Set([443, 8443]);

const defaultSurfaces: readonly SecretSurface[] = [secretSurfaces[0]];

/** Hosts with different secrets that are spoken to at once; a forgotten share is only made again. */
const sharesMax = 16;

/** What to look for in an answer; the meaning is what is to stand there instead. */
export interface AnswerValues {
  readonly own: Matcher<Buffer>;
  readonly others: Matcher<Buffer>;
}

/** One secret, ready to be asked. Its value is in no method's answer but `reveal`. */
export class TrafficSecret {
  readonly name: string;
  readonly placeholder: string;
  /** The value; what else answers must not hold. None where a token has to be fetched first. */
  readonly #values: readonly string[];
  readonly #credential: Credential | undefined;
  readonly #hosts: readonly DestinationPattern[];
  readonly #surfaces: readonly SecretSurface[];

  /** @param credential of one whose value is refreshed: another token makes another secret */
  constructor(name: string, secret: Secret, credential?: Credential) {
    this.name = name;
    this.placeholder = secret.placeholder;
    this.#credential = credential;
    this.#values = credential?.tokens ?? [secret.value].filter((each) => each !== undefined);
    this.#surfaces = secret.surfaces ?? defaultSurfaces;
    this.#hosts = secret.allowed_hosts.flatMap((text) => {
      const parsed = parsePattern(text);
      return parsed.ok ? [parsed.pattern] : [];
    });
  }

  /** May this destination have it at all? */
  concerns(destination: Destination): boolean {
    return this.#hosts.some((pattern) => matches(pattern, destination));
  }

  /** May its value go there without TLS? Whoever writes the host with a port that has none means that. */
  permitsPlain(destination: Destination): boolean {
    return (
      !tlsPorts.has(destination.port) &&
      this.#hosts.some((pattern) => pattern.ports !== undefined && matches(pattern, destination))
    );
  }

  /** May it be put into this part of a request to this destination? */
  permits(surface: SecretSurface, destination: Destination): boolean {
    return this.#surfaces.includes(surface) && this.concerns(destination);
  }

  get isRefreshed(): boolean {
    return this.#credential !== undefined;
  }

  /** What has to be waited for before its value is put in. @throws SecretFailed (rejects) */
  ready(): Promise<void> | undefined {
    return this.#credential?.ready()?.catch((cause: unknown) => {
      throw new SecretFailed(this.name, cause);
    });
  }

  /** A host has answered 401 to its value. */
  refuse(): void {
    const [value] = this.#values;
    if (value !== undefined) this.#credential?.refuse(value);
  }

  /** Means the same, and may be put into the same places. A refreshed token means what the one before meant. */
  isSame(other: TrafficSecret): boolean {
    return (
      this.name === other.name &&
      this.placeholder === other.placeholder &&
      this.#credential === other.#credential &&
      (this.isRefreshed || this.#values[0] === other.#values[0]) &&
      secretSurfaces.every((each) => this.#surfaces.includes(each) === other.#surfaces.includes(each))
    );
  }

  /** The only way to the value; each call site is a place to review. @throws SecretFailed where none was fetched yet */
  reveal(): string {
    const [value] = this.#values;
    if (value === undefined) throw new SecretFailed(this.name, new CredentialFailed('no_token'));
    return value;
  }

  /** What answers must not hold, in all forms, with what is to stand there instead. */
  forms(): readonly ValueForm[] {
    return this.#values.flatMap((value) => valueForms(value, this.placeholder));
  }
}

/** There is no value to put in: it can't be refreshed. */
export class SecretFailed extends Error {
  readonly secret: string;

  constructor(secret: string, cause: unknown) {
    const code = cause instanceof CredentialFailed ? cause.code : 'failed';
    super(`the secret ${JSON.stringify(secret)} can not be refreshed: ${code}`, { cause });
    this.name = 'SecretFailed';
    this.secret = secret;
  }
}

export class TrafficSecrets {
  readonly secrets: readonly TrafficSecret[];
  #placeholders: Matcher<TrafficSecret> | undefined;
  #values: Matcher<Buffer> | undefined;
  /** By the names of the secrets that a host may have. */
  readonly #shares = new Map<string, AnswerValues>();

  constructor(secrets: readonly TrafficSecret[]) {
    this.secrets = secrets;
  }

  get isEmpty(): boolean {
    return this.secrets.length === 0;
  }

  /** Has a secret that this destination may have. */
  concerns(destination: Destination): boolean {
    return this.secrets.some((secret) => secret.concerns(destination));
  }

  /** A host has answered 401 to what these were put into. */
  refuse(names: ReadonlySet<string>): void {
    for (const secret of this.secrets) if (names.has(secret.name)) secret.refuse();
  }

  /** May this destination have the same ones of both? Others are not put into anything that goes there. */
  isSameFor(destination: Destination, other: TrafficSecrets): boolean {
    if (other === this) return true;
    const mine = this.secrets.filter((secret) => secret.concerns(destination));
    const theirs = other.secrets.filter((secret) => secret.concerns(destination));
    return (
      mine.length === theirs.length && mine.every((secret) => theirs.some((each) => each.isSame(secret)))
    );
  }

  /** Finds placeholders, all of them: also those that a destination may not have. */
  get placeholders(): Matcher<TrafficSecret> {
    this.#placeholders ??= new Matcher(
      this.secrets.map((secret) => ({ bytes: Buffer.from(secret.placeholder, 'latin1'), meaning: secret })),
    );
    return this.#placeholders;
  }

  /** Finds values in all their forms; the meaning is what is to stand there instead. */
  get values(): Matcher<Buffer> {
    this.#values ??= valuesOf(this.secrets);
    return this.#values;
  }

  /** The same in two: values that the destination may have, and all others. */
  answerValues(destination: Destination): AnswerValues {
    const own = this.secrets.filter((secret) => secret.concerns(destination));
    const key = own.map(({ name }) => name).join(' ');
    let found = this.#shares.get(key);
    if (found === undefined) {
      found = {
        own: valuesOf(own),
        others: valuesOf(this.secrets.filter((secret) => !own.includes(secret))),
      };
      if (this.#shares.size >= sharesMax) this.#shares.clear();
      this.#shares.set(key, found);
    }
    return found;
  }
}

function valuesOf(secrets: readonly TrafficSecret[]): Matcher<Buffer> {
  return new Matcher(
    secrets.flatMap((secret) =>
      secret.forms().map(({ bytes, replacement }) => ({ bytes, meaning: replacement })),
    ),
  );
}

function matches({ target, ports }: DestinationPattern, { host, address, port }: Destination): boolean {
  if (ports !== undefined && (port < ports.first || port > ports.last)) return false;
  switch (target.kind) {
    case 'host':
      return host === target.host;
    case 'subdomains':
      return host?.endsWith(`.${target.host}`) === true;
    case 'network':
      return address !== undefined && target.range === `${address}/${address.includes(':') ? 128 : 32}`;
    case 'any':
    case 'preset':
      // The schema refuses both for secrets.
      return false;
  }
}
