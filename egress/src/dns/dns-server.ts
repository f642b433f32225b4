/**
 * Answers a sandbox's DNS queries: a name becomes a virtual address that means this name in this sandbox.
 *
 * Two things a newcomer would get wrong. A name that policy refuses is answered as well, with an address whose
 * connections are refused in words, and no query for it leaves the host: otherwise names themselves would carry data out. And
 * an allowed name is asked for upstream before it gets an address, so that a name which is not there is not there
 * for the program either.
 */
import { callerServiceName, hostServiceName, isServiceName } from '@squash/contract/destination';
import type { Log } from '@squash/base/log';
import { classifyAddress } from '@squash/policy/address/ranges';
import { egressLimits as limits } from '../limits.ts';
import type { Policy, Verdict } from '@squash/policy/policy';
import { isLocalhost } from './hosts-file.ts';
import {
  type DnsAnswer,
  type DnsQuery,
  type DnsRecord,
  encodeAnswer,
  encodeRefusal,
  parseQuery,
  recordTypes,
  responseCodes,
  udpBytesMax,
} from './message.ts';
import { hostName, reverseAddress } from './name.ts';
import { refusedToProxy } from '@squash/policy/private-names';
import { encodeRecord, type PassedType, passedType } from './records.ts';
import type { Resolution, Resolver } from './resolver.ts';
import { isVirtual, type VirtualAddresses } from './virtual-addresses.ts';

/** What the server needs of a sandbox. */
export interface DnsClient {
  readonly id: string;
  readonly policy: Policy;
  readonly names: VirtualAddresses;
  /** Names are looked up elsewhere: every one that the policy allows gets an address, and none is asked for here. */
  readonly leavesNames: boolean;
  /** Questions that wait for the host's resolvers. */
  lookups: number;
  /** Is called for every query; records what is new. */
  recordName(host: string, verdict: Verdict): void;
}

export type DnsTransport = 'udp' | 'stream';

const noData: DnsAnswer = { code: responseCodes.noError, records: [] };
const missing: DnsAnswer = { code: responseCodes.nameError, records: [] };
const failed: DnsAnswer = { code: responseCodes.serverFailure, records: [] };
const refused: DnsAnswer = { code: responseCodes.refused, records: [] };

const classInternet = 1;
const loopback4 = Uint8Array.of(127, 0, 0, 1);
const loopback6 = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1);

export class DnsServer {
  readonly #resolver: Resolver;
  readonly #nowMs: () => number;
  readonly #log: Log;
  readonly stats = { queries: 0, refused: 0, dropped: 0 };

  constructor(options: { readonly resolver: Resolver; readonly nowMs: () => number; readonly log: Log }) {
    this.#resolver = options.resolver;
    this.#nowMs = options.nowMs;
    this.#log = options.log;
  }

  /** `undefined`: no answer at all. At once where nobody has to be asked. Never throws, never rejects. */
  answer(
    client: DnsClient,
    message: Uint8Array,
    transport: DnsTransport,
  ): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    this.stats.queries += 1;
    const parsed = parseQuery(message);
    if (parsed.kind === 'drop') return undefined;
    if (parsed.kind === 'refuse') return encodeRefusal(parsed.id, parsed.code);
    const { query } = parsed;
    const bytesMax = transport === 'udp' ? udpBytesMax(query) : 65_535;
    const answer = this.#decide(client, query);
    if (answer === undefined) {
      this.stats.dropped += 1;
      return undefined;
    }
    if (!(answer instanceof Promise)) return encodeAnswer(query, answer, bytesMax);
    client.lookups += 1;
    return answer
      .catch((error: unknown) => this.#fault(client, error))
      .then((one) => encodeAnswer(query, one, bytesMax))
      .finally(() => {
        client.lookups -= 1;
      });
  }

  /** `undefined`: the sandbox has too many questions open, this one is dropped as a full link would. */
  #decide(client: DnsClient, query: DnsQuery): DnsAnswer | Promise<DnsAnswer> | undefined {
    const host = hostName(query.labels);
    if (query.class !== classInternet) return refused;
    // The root and names no host can have: nothing a policy could name.
    if (host === undefined) return query.labels.length === 0 ? noData : missing;
    if (isLocalhost(host)) return ownLoopback(query.type);
    if (host.endsWith('.arpa')) return this.#reverse(client, query, host);
    const verdict = decideName(client, host);
    client.recordName(host, verdict);
    if (!verdict.isAllowed) return this.#refuse(client, query, { host, isAsked: verdict.isAsked === true });
    return this.#allow(client, query, host);
  }

  /** Whoever connects to a name that has to be asked for waits there, so it gets an address; nothing else of it is told. */
  #refuse(
    client: DnsClient,
    query: DnsQuery,
    { host, isAsked }: { readonly host: string; readonly isAsked: boolean },
  ): DnsAnswer {
    this.stats.refused += 1;
    if (!isAsked && client.policy.refusedNames === 'nxdomain') return missing;
    return wantsAddress(query.type)
      ? this.#virtual(client, { host, isRefused: true }, limits.virtualTtlS)
      : noData;
  }

  #allow(client: DnsClient, query: DnsQuery, host: string): DnsAnswer | Promise<DnsAnswer> | undefined {
    const passed = passedType(query.type);
    if (host === callerServiceName || (client.leavesNames && host !== hostServiceName)) {
      return wantsAddress(query.type)
        ? this.#virtual(client, { host, isRefused: false }, limits.virtualTtlS)
        : noData;
    }
    const known = passed === undefined ? this.#resolver.known(host) : undefined;
    if (known !== undefined) return this.#resolved(client, [host, query.type], known);
    if (client.lookups >= limits.sandboxLookupsMax) return undefined;
    if (passed !== undefined) return this.#pass(client, host, passed);
    return this.#resolver
      .addresses(host, client.id)
      .then((resolution) => this.#resolved(client, [host, query.type], resolution));
  }

  /** Also for types that get no data: a name that is missing is missing for all of them. */
  #resolved(
    client: DnsClient,
    [host, type]: readonly [host: string, type: number],
    resolution: Resolution,
  ): DnsAnswer {
    switch (resolution.kind) {
      case 'missing':
        return missing;
      case 'failed':
        return failed;
      case 'empty':
        return noData;
      case 'addresses': {
        if (isOwnName(client.policy, host, resolution.addresses)) return missing;
        if (!wantsAddress(type)) return noData;
        const ttl = Math.min(limits.virtualTtlS, resolution.ttlS);
        return this.#virtual(client, { host, isRefused: false }, ttl);
      }
    }
  }

  #virtual(client: DnsClient, name: { host: string; isRefused: boolean }, ttl: number): DnsAnswer {
    let data: Uint8Array | undefined;
    try {
      data = client.names.addressFor(name.host, name.isRefused, this.#nowMs());
    } catch (error) {
      return this.#fault(client, error);
    }
    if (data === undefined) {
      this.#log.guest(client.id).warn('dns.names_full', { refused: name.isRefused });
      return refused;
    }
    return { code: responseCodes.noError, records: [{ type: recordTypes.A, ttl, data }] };
  }

  async #pass({ id }: DnsClient, host: string, type: PassedType): Promise<DnsAnswer> {
    const found = await this.#resolver.records(host, type, id);
    if (found.kind === 'missing') {
      // c-ares also says so where only the type is missing; what /etc/hosts has is there.
      return this.#resolver.known(host)?.kind === 'addresses' ? noData : missing;
    }
    if (found.kind === 'failed') return failed;
    if (found.kind === 'empty') return noData;
    const records = found.records
      .map((value) => encodeRecord(type, value, limits.virtualTtlS))
      .filter((record): record is DnsRecord => record !== undefined);
    return { code: responseCodes.noError, records };
  }

  /** Own addresses are told, public ones are asked for where policy is open, the rest is nobody's business. */
  #reverse(client: DnsClient, query: DnsQuery, host: string): DnsAnswer | Promise<DnsAnswer> | undefined {
    const address = reverseAddress(host);
    if (address === undefined) return missing;
    if (isVirtual(address)) {
      const name = client.names.hostOf(address);
      if (name === undefined) return missing;
      const record = encodeRecord('PTR', name, limits.virtualTtlS);
      return query.type === recordTypes.PTR && record !== undefined
        ? { code: responseCodes.noError, records: [record] }
        : noData;
    }
    if (client.leavesNames) return query.type === recordTypes.PTR ? missing : noData;
    if (classifyAddress(address).kind !== 'public' || !client.policy.isOpen) return missing;
    if (query.type !== recordTypes.PTR) return noData;
    return client.lookups < limits.sandboxLookupsMax ? this.#pass(client, host, 'PTR') : undefined;
  }

  #fault(client: DnsClient, error: unknown): DnsAnswer {
    this.#log.guest(client.id).error('dns.fault', { error });
    return failed;
  }
}

function decideName({ policy, leavesNames }: DnsClient, host: string): Verdict {
  const verdict = policy.decideName(host);
  const isProxys = verdict.isAllowed && leavesNames && !isServiceName(host);
  return (isProxys ? refusedToProxy(policy, host) : undefined) ?? verdict;
}

/** ANY is answered with what there is (RFC 8482 asks for no more). */
function wantsAddress(type: number): boolean {
  return type === recordTypes.A || type === recordTypes.ANY;
}

function ownLoopback(type: number): DnsAnswer {
  const records: DnsRecord[] = [];
  if (wantsAddress(type)) records.push({ type: recordTypes.A, ttl: limits.virtualTtlS, data: loopback4 });
  if (type === recordTypes.AAAA) records.push({ type, ttl: limits.virtualTtlS, data: loopback6 });
  return { code: responseCodes.noError, records };
}

/** A name of this host itself, as many installations write it to /etc/hosts: no public host, unless somebody says so. */
function isOwnName(policy: Policy, host: string, addresses: readonly string[]): boolean {
  const destination = { host, address: undefined, port: 0 };
  return (
    policy.isOpen &&
    host !== hostServiceName &&
    addresses.every(
      (address) => /^(127\.|::1$)/.test(address) && !policy.decideAddress(destination, address).isAllowed,
    )
  );
}
