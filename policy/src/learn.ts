/**
 * The smallest policy under which a sandbox could do what it tried: one `host:port` for each place it asked for.
 *
 * What was asked for is what code wanted, not what it should have: a person reads the result before it is set. What
 * was refused for another reason than the policy (a private address, a placeholder on its way out) is left out and
 * listed, because adding it is never what a person wants without a second look. Where a name led to an address that is not public and was
 * allowed, the address is proposed beside the name: a policy has to name both.
 */
import { formatPattern, nothing, parsePattern } from '@squash/contract/destination';
import type { PolicyLearnAnswer } from '@squash/contract/egress';
import { policyLimits } from '@squash/contract/policy';
import { parseAddress } from './address/address.ts';
import { classifyAddress } from './address/ranges.ts';

/** The part of a recorded decision that counts. */
export interface LearnedFrom {
  readonly kind: 'dns' | 'connection' | 'request';
  readonly host: string | null;
  readonly address: string | null;
  readonly port: number | null;
  readonly verdict: 'allowed' | 'denied' | 'blocked';
  readonly rule: string;
  readonly count: number;
}

interface Tally {
  count: number;
  refused: number;
}

export function learn(decisions: readonly LearnedFrom[]): PolicyLearnAnswer {
  const seen = new Map<string, Tally>();
  const asked = new Map<string, Tally>();
  const leftOut = new Map<string, string>();
  for (const decision of decisions) {
    const destination = destinationOf(decision);
    if (destination === undefined) continue;
    const why = exclusion(decision, destination);
    if (why !== undefined) leftOut.set(destination, why);
    else {
      add(decision.kind === 'dns' ? asked : seen, destination, decision);
      const behind = addressBehind(decision);
      if (behind !== undefined) add(seen, behind, decision);
    }
  }
  const reached = new Set([...seen.keys()].map((destination) => destination.replace(/:\d+$/, '')));
  for (const [name, tally] of asked) {
    // Under `dns: nxdomain` a refused name never gets as far as a connection; which port it was for is not known.
    if (!reached.has(name) && tally.refused > 0) seen.set(name, tally);
  }
  const destinations = [...seen.keys()].sort(byName);
  const kept = destinations.slice(0, policyLimits.rulesMax);
  for (const destination of destinations.slice(kept.length)) {
    leftOut.set(destination, `a policy has ${policyLimits.rulesMax} rules at most: use a wildcard`);
  }
  return {
    policy: { allow: kept.length === 0 ? [nothing] : kept, deny: [], dns: 'refuse' },
    seen: destinations.map((destination) => ({
      destination,
      ...(seen.get(destination) ?? { count: 0, refused: 0 }),
    })),
    left_out: [...leftOut].filter(([what]) => !kept.includes(what)).map(([what, why]) => ({ what, why })),
  };
}

/** As a rule would name it; undefined where the row names no place. */
function destinationOf({ kind, host, address, port }: LearnedFrom): string | undefined {
  if (kind === 'dns') return host ?? undefined;
  if (port === null) return undefined;
  if (host !== null) return `${host}:${port}`;
  return address === null ? undefined : addressAndPort(address, port);
}

function addressAndPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

function addressBehind({ host, address, port, verdict }: LearnedFrom): string | undefined {
  if (host === null || address === null || port === null || verdict !== 'allowed') return undefined;
  const parsed = parseAddress(address);
  if (parsed === undefined || classifyAddress(parsed).kind === 'public') return undefined;
  return addressAndPort(address, port);
}

function exclusion({ verdict, rule, kind }: LearnedFrom, destination: string): string | undefined {
  if (verdict === 'blocked') return `blocked (${rule})`;
  if (verdict === 'denied' && rule === 'ask_denied') return 'denied by a person (ask_denied)';
  if (verdict === 'denied' && !/(^|\s)not_allowed$|(^|\s)(allow|deny|ask)\[|^ask_/.test(rule))
    return `refused (${rule})`;
  if (verdict === 'denied' && rule.startsWith('ceiling ')) return `refused by the ceiling (${rule})`;
  if (verdict === 'denied' && rule.startsWith('deny[')) return `denied (${rule})`;
  const parsed = parsePattern(destination);
  if (!parsed.ok) return parsed.problem;
  if (formatPattern(parsed.pattern) !== destination) return 'has another canonical spelling';
  // Service records and reverse look-ups are asked for on the way to a name, which is what a policy allows.
  if (kind === 'dns' && /^_|\.arpa$/.test(destination)) return 'is a look-up beside the name itself';
  return undefined;
}

function add(tallies: Map<string, Tally>, destination: string, { count, verdict }: LearnedFrom): void {
  const tally = tallies.get(destination) ?? { count: 0, refused: 0 };
  tally.count += count;
  if (verdict !== 'allowed') tally.refused += count;
  tallies.set(destination, tally);
}

/** Hosts of one domain stand together. */
function byName(one: string, other: string): number {
  const key = (text: string): string => text.split('.').reverse().join('.');
  return key(one) < key(other) ? -1 : key(one) > key(other) ? 1 : 0;
}
