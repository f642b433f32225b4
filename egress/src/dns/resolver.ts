/**
 * What names mean on the host: `/etc/hosts`, then the resolvers of `/etc/resolv.conf`, with a cache within their TTLs.
 *
 * Only names that a policy allows come here. Some never leave the host all the same: names of one label, `.local`
 * and the like mean something in the operator's own network only, if anything; they are answered from
 * `/etc/hosts` or not at all. Search domains are not applied: a sandbox says the names it means.
 *
 * Sandboxes share the host's resolvers by turns: one that asks without end, or for names that nobody answers, waits for
 * itself.
 */
import { Resolver as Cares } from 'node:dns/promises';
import { statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { FairTurns } from '@squash/base/fair-turns';
import { hostServiceName } from '@squash/contract/destination';
import { egressLimits as limits } from '../limits.ts';
import { HostsFile, isLocalhost } from './hosts-file.ts';
import { staysHere } from '@squash/policy/private-names';

export type Resolution =
  | { readonly kind: 'addresses'; readonly addresses: readonly string[]; readonly ttlS: number }
  /** The name is there, without an address. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'missing' }
  /** No answer to be had; `code` is c-ares's word, such as `ESERVFAIL`. */
  | { readonly kind: 'failed'; readonly code: string };

/** Records of another type, as c-ares gives them; the same three ways of having none. */
export type RecordsAnswer =
  | { readonly kind: 'records'; readonly records: readonly unknown[] }
  | Exclude<Resolution, { readonly kind: 'addresses' }>;

export interface ResolverOptions {
  readonly monoMs: () => number;
  /** `address` or `address:port`; instead of those in `/etc/resolv.conf`. */
  readonly servers?: readonly string[];
  readonly hostsFile?: string;
}

type Asked = Promise<Resolution | RecordsAnswer>;

const late = { kind: 'failed', code: 'ETIMEOUT' } as const;

interface Cached<T> {
  readonly value: T;
  readonly untilMs: number;
}

/** Where its services listen that are meant for itself; whichever of the two answers. */
const hostItself: Resolution = {
  kind: 'addresses',
  addresses: ['127.0.0.1', '::1'],
  ttlS: limits.cacheTtlMaxS,
};

const resolvConf = '/etc/resolv.conf';
/** How soon a change of resolv.conf is seen: laptops change networks. */
const lookAgainMs = 2_000;
/** What an IPv6 answer may take after the IPv4 one is there (RFC 8305's resolution delay). */
const secondFamilyMs = 50;

export class Resolver {
  readonly #options: ResolverOptions;
  readonly #hosts: HostsFile;
  readonly #cache = new Map<string, Cached<Resolution | RecordsAnswer>>();
  readonly #flying = new Map<string, Asked>();
  readonly #turns = new FairTurns({ all: limits.lookupsMax, each: limits.sandboxLookupsAtOnceMax });
  #cares: Cares;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #configured = '';
  #asked = 0;

  constructor(options: ResolverOptions) {
    this.#options = options;
    this.#hosts = new HostsFile(options.hostsFile ?? '/etc/hosts');
    this.#cares = this.#build();
  }

  /** Queries that left the host. */
  get asked(): number {
    return this.#asked;
  }

  /** The answer, where it is known without asking anybody. */
  known(host: string): Resolution | undefined {
    const nowMs = this.#options.monoMs();
    if (host === hostServiceName) return hostItself;
    const listed = this.#hosts.addresses(host, nowMs);
    if (listed !== undefined) return { kind: 'addresses', addresses: listed, ttlS: limits.cacheTtlMinS };
    if (staysHere(host)) return { kind: 'missing' };
    return this.#cached(`${host}/A`, nowMs) as Resolution | undefined;
  }

  /** In the turn of `who`, a sandbox; undefined where the operator asks. Never rejects. */
  addresses(host: string, who: string | undefined): Promise<Resolution> {
    const known = this.known(host);
    if (known !== undefined) return Promise.resolve(known);
    return this.#inTurn(`${host}/A`, who, () => this.#askAddresses(host)) as Promise<Resolution>;
  }

  /** Of a name that the operator wrote, which may mean something in his network only. Never rejects. */
  operatorAddresses(host: string): Promise<Resolution> {
    if (isLocalhost(host)) return Promise.resolve(hostItself);
    const known = this.known(host);
    if (known !== undefined && (known.kind !== 'missing' || !staysHere(host))) return Promise.resolve(known);
    return this.#inTurn(`${host}/A`, undefined, () => this.#askAddresses(host)) as Promise<Resolution>;
  }

  /** `type` is one that c-ares knows: MX, TXT, SRV … In the turn of `who`. Never rejects. */
  records(host: string, type: string, who: string): Promise<RecordsAnswer> {
    if (staysHere(host)) return Promise.resolve({ kind: 'missing' });
    const cached = this.#cached(`${host}/${type}`, this.#options.monoMs()) as RecordsAnswer | undefined;
    if (cached !== undefined) return Promise.resolve(cached);
    return this.#inTurn(`${host}/${type}`, who, () => this.#askRecords(host, type)) as Promise<RecordsAnswer>;
  }

  #cached(key: string, nowMs: number): Resolution | RecordsAnswer | undefined {
    const entry = this.#cache.get(key);
    if (entry === undefined) return undefined;
    if (entry.untilMs > nowMs) return entry.value;
    this.#cache.delete(key);
    return undefined;
  }

  /** Equal questions at once are one question. Only what is under way is shared: nobody waits for another one's turn. */
  #inTurn(key: string, who = '', ask: () => Asked): Asked {
    const flying = this.#flying.get(key);
    if (flying !== undefined) return flying;
    const { promise, resolve } = Promise.withResolvers<Resolution | RecordsAnswer>();
    const begin = (): void => {
      clearTimeout(timer);
      const known = this.#cached(key, this.#options.monoMs()) ?? this.#flying.get(key);
      resolve(known ?? this.#ask(key, ask, () => this.#turns.done(who)));
      // Later: turns that nobody needs any more may be many, and each would stand on the stack of the one before.
      if (known !== undefined) queueMicrotask(() => this.#turns.done(who));
    };
    const timer = setTimeout(() => {
      this.#turns.leave(who, begin);
      resolve(late);
    }, limits.lookupMs);
    this.#turns.take(who, begin);
    return promise;
  }

  #ask(key: string, ask: () => Asked, done: () => void): Asked {
    // The place is free when c-ares is done, also where nobody waits any more.
    const settled = ask().finally(() => {
      this.#flying.delete(key);
      done();
    });
    const bounded = inTime(settled).then((value) => {
      this.#keep(key, value);
      return value;
    });
    this.#flying.set(key, bounded);
    return bounded;
  }

  #keep(key: string, value: Resolution | RecordsAnswer): void {
    if (value.kind === 'failed') return;
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size < limits.cacheEntriesMax) break;
      this.#cache.delete(oldest);
    }
    const ttlS =
      value.kind === 'addresses'
        ? value.ttlS
        : value.kind === 'records'
          ? limits.virtualTtlS
          : limits.cacheNegativeS;
    this.#cache.set(key, { value, untilMs: this.#options.monoMs() + ttlS * 1_000 });
  }

  async #askAddresses(host: string): Promise<Resolution> {
    const cares = this.#current();
    this.#asked += 2;
    const ipv4 = settle(cares.resolve4(host, { ttl: true }));
    const ipv6 = settle(cares.resolve6(host, { ttl: true }));
    const four = await ipv4;
    const six = await (Array.isArray(four) && four.length > 0
      ? Promise.race([ipv6, delay(secondFamilyMs, 'ENODATA', { ref: false })])
      : ipv6);
    const found = [four, six].flatMap((part) => (Array.isArray(part) ? part : []));
    if (found.length > 0) {
      const ttlS = Math.min(...found.map(({ ttl }) => ttl));
      return {
        kind: 'addresses',
        addresses: found.map(({ address }) => address),
        ttlS: Math.min(limits.cacheTtlMaxS, Math.max(limits.cacheTtlMinS, ttlS)),
      };
    }
    return without([four, six].map((part) => (typeof part === 'string' ? part : 'ENODATA')));
  }

  async #askRecords(host: string, type: string): Promise<RecordsAnswer> {
    this.#asked += 1;
    const found = await settle(this.#current().resolve(host, type) as Promise<unknown>);
    if (typeof found === 'string') return without([found]);
    // SOA is the one type with a single record.
    const records = Array.isArray(found) ? found : [found];
    return { kind: 'records', records: records.slice(0, limits.answerRecordsMax) };
  }

  #build(): Cares {
    // Tries and servers multiply; `inTime` is the bound that counts.
    const cares = new Cares({ timeout: 1_500, tries: 2, maxTimeout: 3_000 });
    if (this.#options.servers !== undefined) cares.setServers(this.#options.servers);
    return cares;
  }

  /** c-ares reads resolv.conf once: a changed file needs a new one. What is under way ends with the old. */
  #current(): Cares {
    const nowMs = this.#options.monoMs();
    if (this.#options.servers !== undefined || nowMs - this.#lookedMs < lookAgainMs) return this.#cares;
    this.#lookedMs = nowMs;
    const { mtimeMs, ino } = statSync(resolvConf, { throwIfNoEntry: false }) ?? { mtimeMs: 0, ino: 0 };
    const configured = `${ino} ${mtimeMs}`;
    if (configured !== this.#configured) {
      this.#configured = configured;
      this.#cares = this.#build();
    }
    return this.#cares;
  }
}

/** The value, or c-ares's code. */
async function settle<T>(asked: Promise<T>): Promise<T | string> {
  try {
    return await asked;
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : 'EFAILED';
  }
}

/** A name is missing only where everybody says so; a failure of one family leaves it open. */
function without(codes: readonly string[]): Exclude<Resolution, { readonly kind: 'addresses' }> {
  const failed = codes.find((code) => code !== 'ENOTFOUND' && code !== 'ENODATA');
  if (failed !== undefined) return { kind: 'failed', code: failed };
  return codes.every((code) => code === 'ENOTFOUND') ? { kind: 'missing' } : { kind: 'empty' };
}

async function inTime<T>(asked: Promise<T>): Promise<T | typeof late> {
  const { promise, resolve } = Promise.withResolvers<typeof late>();
  const timer = setTimeout(() => resolve(late), limits.lookupMs);
  try {
    return await Promise.race([asked, promise]);
  } finally {
    clearTimeout(timer);
  }
}
