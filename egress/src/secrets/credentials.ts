/**
 * Secrets whose value is refreshed on the host: who has which token now, and when another one is fetched.
 *
 * What a newcomer would get wrong: a refresh token is often good for one refresh only. So there is one refresh at a time however
 * many requests wait for it, what comes of it is on the disk before any of them goes on, and it is never given up halfway.
 */
import type { Clock } from '@squash/base/clock';
import { Failure } from '@squash/base/failure';
import type { Log } from '@squash/base/log';
import { unlessAborted } from '@squash/base/unless-aborted';
import type { OAuth } from '@squash/contract/secrets';
import type { UpstreamRoots } from '../intercept/upstream-socket.ts';
import { CredentialFile, type HeldTokens, keyOf } from './credential-file.ts';
import { CredentialFailed, requestTokens } from './token-request.ts';

/** So long before its end a token is replaced, while it is used still; of a short-lived one for half of its time. */
const earlyMs = 60_000;
/** A host that answers 401 to everything costs the token endpoint a request in this time, no more. */
const refusalsMs = 60_000;
const backOffFirstMs = 1_000;
const backOffMostMs = 60_000;
/** At the process's end, for refreshes that are under way. */
const settleMs = 3_000;

export interface CredentialParts {
  /** Where their tokens are kept. */
  readonly path: string;
  readonly roots: UpstreamRoots;
  readonly clock: Clock;
  readonly log: Log;
}

interface Shared extends CredentialParts {
  readonly file: CredentialFile;
  readonly onRefreshed: () => void;
}

/** One credential, for as long as the operator's refresh token is the same. */
export class Credential {
  readonly #shared: Shared;
  readonly #key: string;
  /** As written by the operator, last. */
  oauth: OAuth;
  /** Of the secret, for the log. */
  name: string;
  #held: HeldTokens | undefined;
  #refreshing: Promise<void> | undefined;
  #refreshedMs = -Infinity;
  /** A host has answered 401 to the present token. */
  #isRefused = false;
  #failure: CredentialFailed | undefined;
  #failures = 0;
  #notBeforeMs = -Infinity;

  constructor(shared: Shared, name: string, oauth: OAuth) {
    this.#shared = shared;
    this.#key = keyOf(oauth);
    this.name = name;
    this.oauth = oauth;
    this.#takeHeld();
  }

  /** The present one first, then what answers must not hold either. None: nothing has been fetched yet. */
  get tokens(): readonly string[] {
    const { access_token: token } = this.#held ?? this.oauth;
    return [token, this.#held?.previous_token].filter((each) => each !== undefined);
  }

  get problem(): string | undefined {
    return (
      this.#failure && `the secret ${JSON.stringify(this.name)} can not be refreshed: ${this.#failure.code}`
    );
  }

  /**
   * What has to be waited for before the token is used, if anything. A refresh that is only early goes on behind it.
   * @throws CredentialFailed (rejects) where there is no token that could be good
   */
  ready(): Promise<void> | undefined {
    const nowMs = this.#shared.clock.wallMs();
    const { expiresMs, refreshMs } = this.#times;
    const isUsable = this.tokens.length > 0 && nowMs < expiresMs;
    if (isUsable && !this.#isRefused && nowMs < refreshMs) return undefined;
    if (this.#refreshing === undefined && this.#shared.clock.monoMs() < this.#notBeforeMs) {
      return isUsable ? undefined : Promise.reject(this.#failure ?? new CredentialFailed('failed'));
    }
    this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = undefined));
    if (!isUsable) return this.#refreshing;
    // The host says itself what it thinks of the token that there is.
    const tried = this.#refreshing.catch(ignore);
    return this.#isRefused ? tried : undefined;
  }

  /** A host has answered 401 to it: the next request waits for another one. */
  refuse(token: string): void {
    if (token !== this.tokens[0] || this.#shared.clock.monoMs() - this.#refreshedMs < refusalsMs) return;
    this.#isRefused = true;
  }

  /** When no refresh is under way. */
  async settled(): Promise<void> {
    await this.#refreshing?.catch(ignore);
  }

  get #times(): { readonly expiresMs: number; readonly refreshMs: number } {
    if (this.#held !== undefined) {
      const { expires_at_ms: expiresMs = Infinity, refresh_at_ms: refreshMs = Infinity } = this.#held;
      return { expiresMs, refreshMs };
    }
    const { expires_at: expiresAt } = this.oauth;
    const expiresMs = expiresAt === undefined ? Infinity : Date.parse(expiresAt);
    return { expiresMs, refreshMs: expiresMs - earlyMs };
  }

  async #refresh(): Promise<void> {
    const { clock, log } = this.#shared;
    try {
      await this.#fetch();
      this.#failures = 0;
      this.#failure = undefined;
      log.info('credential.refreshed', { name: this.name });
    } catch (error) {
      this.#failure =
        error instanceof CredentialFailed
          ? error
          : new CredentialFailed(error instanceof Failure ? error.code : 'failed', { cause: error });
      this.#failures += 1;
      const backOffMs = Math.min(backOffFirstMs * 2 ** (this.#failures - 1), backOffMostMs);
      this.#notBeforeMs = clock.monoMs() + backOffMs;
      log.warn('credential.failed', { name: this.name, reason: this.#failure.code, backOffMs });
      throw this.#failure;
    }
  }

  async #fetch(): Promise<void> {
    const { clock, file, roots, onRefreshed } = this.#shared;
    // A process before this one may have written last.
    const before = file.read(this.#key);
    if (before !== undefined && before.refresh_token !== this.#held?.refresh_token) {
      this.#held = before;
      this.#isRefused = false;
      onRefreshed();
      if (clock.wallMs() < this.#times.refreshMs) return;
    }
    const refreshToken = this.#held?.refresh_token ?? this.oauth.refresh_token;
    const [previous] = this.tokens;
    const fresh = await requestTokens(this.oauth, refreshToken, roots);
    const nowMs = clock.wallMs();
    const { accessToken, expiresInS } = fresh;
    const held: HeldTokens = {
      access_token: accessToken,
      refresh_token: fresh.refreshToken ?? refreshToken,
      ...(previous !== undefined && previous !== accessToken && { previous_token: previous }),
      ...(expiresInS !== undefined && {
        expires_at_ms: nowMs + expiresInS * 1_000,
        refresh_at_ms: nowMs + Math.max(expiresInS * 500, expiresInS * 1_000 - earlyMs),
      }),
    };
    await file.write(this.#key, held);
    this.#held = held;
    this.#isRefused = false;
    this.#refreshedMs = clock.monoMs();
    onRefreshed();
  }

  #takeHeld(): void {
    try {
      this.#held = this.#shared.file.read(this.#key);
    } catch {
      // The next refresh says so, and asks nobody for a token before it can be read.
    }
  }
}

export class Credentials implements AsyncDisposable {
  readonly #shared: Shared;
  readonly #known = new Map<string, Credential>();

  /** @param onRefreshed called when a credential has another token */
  constructor(parts: CredentialParts, onRefreshed: () => void) {
    this.#shared = { ...parts, file: new CredentialFile(parts.path, parts.log), onRefreshed };
  }

  /** The same one for as long as its refresh token in `secrets.json` is the same. */
  take(name: string, oauth: OAuth): Credential {
    const key = keyOf(oauth);
    let found = this.#known.get(key);
    if (found === undefined) {
      found = new Credential(this.#shared, name, oauth);
      this.#known.set(key, found);
    }
    found.oauth = oauth;
    found.name = name;
    return found;
  }

  /** Only these are in `secrets.json`: what was fetched for others is forgotten. */
  retain(all: readonly OAuth[]): void {
    const keys = new Set(all.map(keyOf));
    for (const key of this.#known.keys()) if (!keys.has(key)) this.#known.delete(key);
    this.#shared.file.retain(keys);
  }

  get problems(): readonly string[] {
    return Array.from(this.#known.values(), ({ problem }) => problem).filter((each) => each !== undefined);
  }

  /** Refreshes under way are waited for, within reason: else what they bring would be lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    const all = Promise.all(Array.from(this.#known.values(), (each) => each.settled()));
    await unlessAborted(all, AbortSignal.timeout(settleMs)).catch(ignore);
    await this.#shared.file.settled();
  }
}

function ignore(): void {}
