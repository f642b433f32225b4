/**
 * One sandbox as the egress process knows it: its rules, its names, its connections, and its share of everything.
 *
 * A relay may come before the daemon has spoken of its sandbox: such a sandbox exists with rules that refuse
 * everything, so that there is no moment in which nobody decides.
 */
import { TokenBucket } from '@squash/base/token-bucket';
import { callerServiceName, isServiceName } from '@squash/contract/destination';
import { Admission } from './admission.ts';
import type { ConnectionCounters } from './connection-services.ts';
import type { DecisionLog } from '../decisions/decision-log.ts';
import type { DnsClient } from '../dns/dns-server.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { VirtualAddresses } from '../dns/virtual-addresses.ts';
import { egressLimits as limits } from '../limits.ts';
import type { Destination, Policy, Verdict } from '@squash/policy/policy';
import type { SandboxSecrets } from '../ports.ts';
import type { SandboxResolver } from './targets.ts';
import type { NamedUpstream } from './upstream-proxy.ts';

/** What a sandbox asks of its connections. */
export interface Reviewable {
  /** Judges the connection again. True: it was ended. */
  review(): boolean;
  /** Ends it, whatever it is. */
  cut(): void;
}

export interface SandboxParts {
  readonly names: VirtualAddresses;
  /** Until the daemon says which it may use: none. */
  readonly secrets: SandboxSecrets;
  readonly decisions: DecisionLog;
  readonly monoMs: () => number;
}

export class Sandbox implements DnsClient {
  readonly id: string;
  readonly names: VirtualAddresses;
  readonly connections = new Set<Reviewable>();
  /** Tunnels that an earlier process decided, by their numbers, and how to end them. */
  readonly adopted = new Map<number, Reviewable>();
  /** As its relays say it; bytes at the end of each connection. */
  readonly traffic = { connections: 0, bytesUp: 0, bytesDown: 0 };
  readonly queries: TokenBucket;
  /** TLS that is refused in words. */
  readonly refusals: TokenBucket;
  /** TLS that is read. */
  readonly handshakes: Admission;
  policy: Policy = refuseAll;
  /** The proxy that it goes out through. */
  upstream: NamedUpstream | undefined;
  secrets: SandboxSecrets;
  lookups = 0;
  intercepted = 0;
  dnsStreams = 0;
  readonly #decisions: DecisionLog;
  readonly #monoMs: () => number;
  readonly #opens: Admission;
  readonly #told = new Map<string, number>();

  constructor(id: string, parts: SandboxParts) {
    this.id = id;
    this.names = parts.names;
    this.secrets = parts.secrets;
    this.#decisions = parts.decisions;
    this.#monoMs = parts.monoMs;
    const nowMs = parts.monoMs();
    this.queries = new TokenBucket(
      { perS: limits.sandboxQueriesPerS, burst: limits.sandboxQueriesBurst },
      nowMs,
    );
    this.refusals = new TokenBucket(
      { perS: limits.sandboxRefusalsPerS, burst: limits.sandboxRefusalsBurst },
      nowMs,
    );
    this.handshakes = new Admission(
      { perS: limits.sandboxHandshakesPerS, burst: limits.sandboxHandshakesBurst },
      parts.monoMs,
    );
    this.#opens = new Admission(
      { perS: limits.sandboxConnectionsPerS, burst: limits.sandboxConnectionsBurst },
      parts.monoMs,
    );
  }

  /** For this destination. A service of the host, or a port of a caller, is none of a proxy's business. */
  upstreamTo({ host }: Destination): NamedUpstream | undefined {
    return isServiceName(host) ? undefined : this.upstream;
  }

  get leavesNames(): boolean {
    return this.upstream?.proxy.resolvesNames === true;
  }

  /** Is its address nothing that is known here: a name that the proxy looks up, or a port of a caller? */
  isElsewhere(destination: Destination): boolean {
    return destination.host === callerServiceName || this.leavesName(destination);
  }

  /** Is this name the proxy's to look up? */
  leavesName(destination: Destination): boolean {
    return destination.host !== undefined && this.upstreamTo(destination)?.proxy.resolvesNames === true;
  }

  /** For one more whose bytes come here: as many as are left of all, so that the next sandbox finds room as well. */
  hasRoom({ intercepted }: Pick<ConnectionCounters, 'intercepted'>): boolean {
    return this.intercepted < Math.min(limits.sandboxInterceptedMax, limits.interceptedMax - intercepted);
  }

  /** Words over TLS cost a handshake and often a certificate: a flood hears a reset instead. */
  mayBeTold(protocol: 'tls' | 'http'): boolean {
    return protocol === 'http' || this.refusals.take(this.#monoMs());
  }

  /** @returns what gives it back */
  takeRoom(counters: Pick<ConnectionCounters, 'intercepted'>): () => void {
    this.intercepted += 1;
    counters.intercepted += 1;
    return () => {
      this.intercepted -= 1;
      counters.intercepted -= 1;
    };
  }

  /** Calls `begin` when the sandbox's rate of new connections allows it, at once where it does now. */
  admit(begin: () => void): void {
    this.#opens.admit(begin);
  }

  /** Of what `admit` has not called yet. */
  leave(begin: () => void): void {
    this.#opens.leave(begin);
  }

  /** The host's resolvers, as far as this sandbox has not too many questions open already. */
  resolverOf(resolver: Resolver): SandboxResolver {
    return {
      known: (host) => resolver.known(host),
      addresses: async (host) => {
        if (this.lookups >= limits.sandboxLookupsMax) return { kind: 'failed', code: 'EBUSY' };
        this.lookups += 1;
        try {
          return await resolver.addresses(host, this.id);
        } finally {
          this.lookups -= 1;
        }
      },
    };
  }

  /** How many connections the present rules do not allow any more; they are ended. */
  review(): number {
    // A name that was told under the old rules is told again under the new ones.
    this.#told.clear();
    const all = [...this.connections, ...this.adopted.values()];
    return all.filter((connection) => connection.review()).length;
  }

  recordName(host: string, verdict: Verdict): void {
    const nowMs = this.#monoMs();
    const key = `${host} ${verdict.rule}`;
    const toldMs = this.#told.get(key);
    if (toldMs !== undefined && nowMs - toldMs < limits.dnsDecisionRepeatMs) return;
    this.#told.delete(key);
    for (const oldest of this.#told.keys()) {
      if (this.#told.size < limits.dnsDecisionNamesMax) break;
      this.#told.delete(oldest);
    }
    this.#told.set(key, nowMs);
    this.#decisions.record(this.id, {
      kind: 'dns',
      host,
      address: undefined,
      port: undefined,
      verdict: verdict.isAllowed ? 'allowed' : 'denied',
      rule: verdict.rule,
    });
  }

  /** Ends all that is going on. */
  cut(): void {
    this.#opens.stop();
    this.handshakes.stop();
    this.cutConnections();
  }

  /** @returns how many there were */
  cutConnections(): number {
    const all = [...this.connections, ...this.adopted.values()];
    for (const connection of all) connection.cut();
    this.adopted.clear();
    return all.length;
  }
}

const refusal: Verdict = { isAllowed: false, rule: 'no_policy' };

/** For a sandbox without rules that hold. */
export const refuseAll: Policy = {
  decideName: () => refusal,
  namesHost: () => false,
  decideConnection: () => refusal,
  decideAddress: () => refusal,
  needsRequests: () => false,
  decideRequest: () => refusal,
  isOpen: false,
  refusedNames: 'refuse',
};
