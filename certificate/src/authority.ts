/**
 * A certificate authority that speaks ACME (RFC 8555), by way of acme-client: account, order, challenge, certificate.
 *
 * The library signs, holds nonces and makes the request for the certificate. It neither waits nor tries again here: its own waits
 * follow what the authority says, for days if it likes, and can't be broken off.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Agent } from 'node:https';
import { type Authorization, axios, Client, crypto, type Order } from 'acme-client';
import { errorText } from '@squash/base/bug';
import { pause } from '@squash/base/pause';
import { CertificateFailure, quoted } from './failure.ts';
import type { DnsRecord } from './dns-hook.ts';

export interface AuthorityOptions {
  readonly directoryUrl: string;
  /** PEM: trusted instead of the public authorities, for the connection to the directory alone. */
  readonly ca: string | undefined;
  readonly accountKey: string;
  readonly binding: { readonly kid: string; readonly hmacKey: string } | undefined;
  readonly signal: AbortSignal;
}

/** What is still to be shown before the order is ready. */
export interface Challenge {
  readonly record: DnsRecord;
  /** Has the authority look. @throws certificate_failed where it does not find what it wants */
  readonly complete: () => Promise<void>;
}

/** One question, with the nonce that it needs. */
const answerMsMax = 60_000;
/** An authority looks from several places, and signs in a queue. */
const waitMsMax = 300_000;
const pollMsMin = 250;
const pollMsMax = 10_000;
const answerBytesMax = 1_048_576;
/** Of Node. */
const requestErrors = 'http.client.request.error';

export class Authority {
  readonly #client: Client;
  readonly #signal: AbortSignal;
  readonly #host: string;

  constructor({ directoryUrl, ca, accountKey, binding, signal }: AuthorityOptions) {
    this.#client = new Client({
      directoryUrl,
      accountKey,
      ...(binding !== undefined && { externalAccountBinding: binding }),
    });
    this.#signal = signal;
    this.#host = new URL(directoryUrl).host;
    Object.assign(axios.defaults, {
      httpsAgent: new Agent({ keepAlive: false, ...(ca !== undefined && { ca }) }),
      maxContentLength: answerBytesMax,
      acmeSettings: { retryMaxAttempts: 0, retryDefaultDelay: 1 },
    });
  }

  /** Undefined where it has none. */
  async terms(): Promise<string | undefined> {
    const url = (await this.#ask('its directory', () => this.#client.getTermsOfServiceUrl())) as
      | string
      | null;
    return url ?? undefined;
  }

  /** Makes the account, or finds it. */
  async register(email: string | undefined): Promise<void> {
    const contact = email === undefined ? {} : { contact: [`mailto:${email}`] };
    await this.#ask('an account', () =>
      this.#client.createAccount({ termsOfServiceAgreed: true, ...contact }),
    );
  }

  /** Finds the account that the key has. */
  async login(email: string | undefined): Promise<void> {
    const contact = email === undefined ? {} : { contact: [`mailto:${email}`] };
    await this.#ask('the account of this key (--agree-tos makes it anew)', () =>
      this.#client.createAccount({ onlyReturnExisting: true, ...contact }),
    );
  }

  async order(name: string): Promise<Order> {
    return await this.#ask(`an order for ${name}`, () =>
      this.#client.createOrder({ identifiers: [{ type: 'dns', value: name }] }),
    );
  }

  /** One for each authorization that is not valid by an earlier order. */
  async challenges(order: Order): Promise<readonly Challenge[]> {
    const authorizations = await this.#ask('what it wants to see', () =>
      this.#client.getAuthorizations(order),
    );
    const open = authorizations.filter(({ status }) => status !== 'valid');
    return await Promise.all(open.map((authorization) => this.#challenge(order, authorization)));
  }

  async #challenge(order: Order, authorization: Authorization): Promise<Challenge> {
    const { value: domain } = authorization.identifier;
    const challenge = authorization.challenges.find(({ type }) => type === 'dns-01');
    if (challenge === undefined) throw this.#failed(`offers no DNS challenge for ${domain}`);
    const value = await this.#client.getChallengeKeyAuthorization(challenge);
    return {
      record: { name: `_acme-challenge.${domain}.`, value },
      complete: async () => {
        await this.#ask('to look at the record', () => this.#client.completeChallenge(challenge));
        await this.#until(`to look at the record of ${domain}`, () =>
          this.#isValid(order, authorization.url),
        );
      },
    };
  }

  async #isValid(order: Order, url: string): Promise<true | undefined> {
    const all = await this.#ask('what it saw', () => this.#client.getAuthorizations(order));
    const found = all.find((each) => each.url === url);
    if (found?.status === 'valid') return true;
    if (found?.status === 'pending') return undefined;
    const told = found?.challenges.flatMap(({ error }) => (error === undefined ? [] : [textOf(error)]));
    throw this.#failed(`did not accept the record: ${quoted(told?.join('; ') ?? '')}`);
  }

  /** @returns the chain, PEM */
  async certificate(order: Order, name: string, key: string): Promise<string> {
    const ready = await this.#reached(order, 'to accept the order', ['ready']);
    const [, csr] = await crypto.createCsr({ altNames: [name] }, key);
    await this.#ask('to sign', () => this.#client.finalizeOrder(ready, csr));
    const signed = await this.#reached(order, 'to sign', ['valid']);
    return await this.#ask('the certificate', () => this.#client.getCertificate(signed));
  }

  async #reached(order: Order, what: string, states: readonly Order['status'][]): Promise<Order> {
    return await this.#until(what, async () => {
      const found = await this.#ask('how the order is', () => this.#client.getOrder(order));
      if (states.includes(found.status)) return found;
      if (found.status !== 'invalid') return undefined;
      throw this.#failed(`refused the order: ${quoted(textOf('error' in found ? found.error : undefined))}`);
    });
  }

  /** @throws certificate_failed, with what was asked for */
  async #ask<T>(what: string, work: () => Promise<T>): Promise<T> {
    const bound = AbortSignal.any([this.#signal, AbortSignal.timeout(answerMsMax)]);
    Object.assign(axios.defaults, { signal: bound });
    // Where no answer came the library stumbles over its absence and does not say why.
    let lost: unknown;
    const onLost = (message: unknown): void => {
      lost = (message as { readonly error: unknown }).error;
    };
    subscribe(requestErrors, onLost);
    try {
      return await work();
    } catch (error) {
      const cause = lost ?? error;
      if (this.#signal.aborted) throw this.#interrupted();
      if (bound.aborted) throw this.#failed(`did not answer within ${answerMsMax / 1000} s: ${what}`);
      const said = quoted(errorText(cause)) || 'no word of why';
      throw this.#failed(`was asked for ${what} and did not give it: ${said}`, cause);
    } finally {
      unsubscribe(requestErrors, onLost);
    }
  }

  async #until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
    const endMs = performance.now() + waitMsMax;
    for (let ms = pollMsMin; ; ms = Math.min(2 * ms, pollMsMax)) {
      const found = await look();
      if (found !== undefined) return found;
      if (performance.now() > endMs) throw this.#failed(`was awaited ${waitMsMax / 1000} s in vain ${what}`);
      await pause(ms, this.#signal);
      if (this.#signal.aborted) throw this.#interrupted();
    }
  }

  #interrupted(): CertificateFailure {
    return new CertificateFailure('certificate_failed', `interrupted; ${this.#host} was not waited for`);
  }

  #failed(how: string, cause?: unknown): CertificateFailure {
    return new CertificateFailure('certificate_failed', `the authority ${this.#host} ${how}`, { cause });
  }
}

/** A problem (RFC 7807) as far as it is one. */
function textOf(problem: unknown): string {
  if (typeof problem !== 'object' || problem === null) return 'no word of why';
  return 'detail' in problem ? String(problem.detail) : JSON.stringify(problem);
}
