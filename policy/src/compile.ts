/**
 * From a policy as it is written to the `Policy` that the process asks. Pure: no clock, no network, no state.
 *
 * Deny always wins. What is allowed by nothing is refused. A ceiling is a second policy that is asked as well: both
 * must allow. Addresses that are not public are refused unless somebody named their range: the operator, or the
 * policy by a range or an address (a name or `*` names none), and the ceiling does not spare anybody that.
 *
 * What a newcomer would get wrong: a range names a place that is not public only if it lies inside that kind of place.
 * `0.0.0.0/0` and `169.254.0.0/16` hold the metadata service's address and mean something else.
 */
import { hostServiceName } from '@squash/contract/destination';
import { type PolicyRule, type PolicySource, policyRules } from '@squash/contract/policy';
import { type Address, effectiveAddress, parseAddress } from './address/address.ts';
import type { Cidr } from './address/cidr.ts';
import { classifyAddress, isNamedBy } from './address/ranges.ts';
import type { Destination, DiallingHost, Policy, RequestAsked, Verdict } from './policy.ts';
import { type PlacedRule, RuleTable, type RuleTest } from './rule-table.ts';

export interface PolicyParts {
  readonly policy: PolicySource;
  /** What no policy can exceed. */
  readonly ceiling: PolicySource | undefined;
  /** Ranges that are not public and count as public here: `SQUASH_EGRESS_ALLOW_CIDRS`. */
  readonly allowRanges: readonly Cidr[];
  /** Without it no address is the host's own: a question that nobody will dial for. */
  readonly host?: DiallingHost;
}

/** What all rules of one policy and its ceiling are read with. */
interface Frame {
  readonly allowRanges: readonly Cidr[];
  readonly host: DiallingHost;
  /** Somebody has to permit the host's loopback: the ceiling, where there is one, else a range of the operator's. */
  readonly hasCeiling: boolean;
}

const nowhere: DiallingHost = { isOwn: () => false, isDaemon: () => false };

/** Nothing is denied, and nothing is allowed either. */
export const noRule = 'not_allowed';

/** @throws TypeError where the sources did not go through the contract's schema */
export function compilePolicy({ policy, ceiling, allowRanges, host = nowhere }: PolicyParts): Policy {
  const frame: Frame = { allowRanges, host, hasCeiling: ceiling !== undefined };
  const own = new RuleSet(policy, '', frame);
  if (ceiling === undefined) return own;
  return new Limited(own, new RuleSet(ceiling, 'ceiling ', frame));
}

class RuleSet implements Policy {
  readonly isOpen: boolean;
  readonly refusedNames: 'refuse' | 'nxdomain';
  readonly #allow: RuleTable;
  readonly #deny: RuleTable;
  readonly #frame: Frame;
  readonly #prefix: string;
  readonly #refusal: Verdict;
  readonly #hasConditions: boolean;

  constructor(source: PolicySource, prefix: string, frame: Frame) {
    const rules = policyRules(source);
    this.#allow = new RuleTable(rules.allow);
    this.#deny = new RuleTable(rules.deny);
    this.#frame = frame;
    this.#prefix = prefix;
    this.#refusal = { isAllowed: false, rule: prefix + (this.#allow.isEmpty ? 'allow[0] none' : noRule) };
    this.#hasConditions = [...rules.allow, ...rules.deny].some(isConditional);
    this.isOpen =
      this.#deny.isEmpty &&
      this.#allow.any((rule) => rule.ports === undefined && !isConditional(rule)) !== undefined;
    this.refusedNames = rules.dns;
  }

  decideName(host: string): Verdict {
    const denying = this.#deny.host(host, (rule) => rule.ports === undefined && !isConditional(rule));
    if (denying !== undefined) return this.#no(denying);
    return this.#answer(this.#naming(host, () => true));
  }

  namesHost(host: string, port: number | undefined): boolean {
    const isNaming: RuleTest = (rule) =>
      rule.target.kind === 'host' && (port === undefined || hasPort(rule, port));
    return this.#allow.host(host, isNaming) !== undefined;
  }

  decideConnection(destination: Destination): Verdict {
    const { port } = destination;
    const denying = this.#find(
      this.#deny,
      destination,
      (rule) => !isConditional(rule) && hasPort(rule, port),
    );
    if (denying !== undefined) return this.#no(denying);
    return this.#allowing(destination, (rule) => hasPort(rule, port));
  }

  decideAddress(destination: Destination, text: string): Verdict {
    const { port } = destination;
    const address = parseAddress(text);
    if (address === undefined) return { isAllowed: false, rule: `${this.#prefix}no_address` };
    if (this.#frame.host.isDaemon(effectiveAddress(address), port)) return daemonAddress;
    const denying = this.#deny.network(address, (rule) => !isConditional(rule) && hasPort(rule, port));
    if (denying !== undefined) return this.#no(denying);
    const { kind, prefixMin } = this.#placeOf(address);
    if (destination.host === hostServiceName) return this.#decideHost(destination, kind);
    const naming = this.#allow.network(address, (rule) => hasPort(rule, port), prefixMin);
    if (naming !== undefined) return this.#yes(naming);
    if (kind === 'named') return namedAddress;
    return kind === 'public' ? publicAddress : { isAllowed: false, rule: `${this.#prefix}${kind}_address` };
  }

  /** The policy names it, and somebody above the policy has to permit it: its writer may be less than the operator. */
  #decideHost({ port }: Destination, kind: string): Verdict {
    const verdict = this.#answer(this.#naming(hostServiceName, (rule) => hasPort(rule, port)));
    if (!verdict.isAllowed || this.#frame.hasCeiling || kind === 'named') return verdict;
    return { isAllowed: false, rule: `${this.#prefix}host_not_permitted` };
  }

  needsRequests(destination: Destination): boolean {
    if (!this.#hasConditions) return false;
    const concerns: RuleTest = (rule) => hasPort(rule, destination.port);
    const denying = this.#find(this.#deny, destination, (rule) => isConditional(rule) && concerns(rule));
    if (denying !== undefined) return true;
    // Through the same door as the connection: `*` allows no private address, so it spares none its conditions.
    if (this.#allowing(destination, (rule) => !isConditional(rule) && concerns(rule)).isAllowed) return false;
    return this.#allowing(destination, concerns).isAllowed;
  }

  decideRequest(destination: Destination, request: RequestAsked): Verdict {
    const concerns: RuleTest = (rule) => hasPort(rule, destination.port) && hasRequest(rule, request);
    const denying = this.#find(
      this.#deny,
      destination,
      (rule) => hasPort(rule, destination.port) && isDeniedRequest(rule, request),
    );
    if (denying !== undefined) return this.#no(denying);
    const verdict = this.#allowing(destination, concerns);
    const { upgrade } = request;
    if (!verdict.isAllowed || upgrade === undefined || !this.needsRequests(destination)) return verdict;
    const changing = this.#allowing(
      destination,
      (rule) => concerns(rule) && rule.upgrades?.includes(upgrade) === true,
    );
    return changing.isAllowed ? changing : { isAllowed: false, rule: `${this.#prefix}upgrade_not_allowed` };
  }

  /** An address that is not public is not among "everything public": only a range that holds it allows it. */
  #allowing(destination: Destination, test: RuleTest): Verdict {
    if (destination.host !== undefined) return this.#answer(this.#naming(destination.host, test));
    const address = parseAddress(destination.address ?? '');
    if (address === undefined) return this.#refusal;
    const { kind, prefixMin } = this.#placeOf(address);
    const naming = this.#allow.network(address, test, prefixMin);
    if (naming !== undefined) return this.#yes(naming);
    const everything = this.#allow.any(test) ?? this.#allow.network(address, test);
    if (everything === undefined || kind === 'public' || kind === 'named') return this.#answer(everything);
    return { isAllowed: false, rule: `${this.#prefix}${kind}_address` };
  }

  #find(table: RuleTable, destination: Destination, test: RuleTest): PlacedRule | undefined {
    if (destination.host !== undefined) return table.host(destination.host, test);
    const address = parseAddress(destination.address ?? '');
    const inRange = address === undefined ? undefined : table.network(address, test);
    const everything = table.any(test);
    if (inRange === undefined || everything === undefined) return inRange ?? everything;
    return inRange.order < everything.order ? inRange : everything;
  }

  /** The host behind its name is no host of the Internet: neither `*` nor a wildcard means it. */
  #naming(host: string, test: RuleTest): PlacedRule | undefined {
    if (host !== hostServiceName) return this.#allow.host(host, test);
    return this.#allow.host(host, (rule) => rule.target.kind === 'host' && test(rule));
  }

  /** `prefixMin`: shorter ranges do not name it. `named`: a range of the operator's does, so it counts as public. */
  #placeOf(address: Address): { readonly kind: string; readonly prefixMin: number } {
    const effective = effectiveAddress(address);
    const { kind, prefix } = classifyAddress(effective);
    const isOwn = this.#frame.host.isOwn(effective);
    const prefixMin = isOwn ? effective.length * 8 : prefix;
    if (isNamedBy(this.#frame.allowRanges, address, prefixMin)) return { kind: 'named', prefixMin: 0 };
    // No policy's range names it, in no spelling: a service of the host has its own word.
    if (kind === 'loopback') return { kind, prefixMin: Number.POSITIVE_INFINITY };
    return { kind: isOwn ? 'host' : kind, prefixMin };
  }

  #answer(rule: PlacedRule | undefined): Verdict {
    return rule === undefined ? this.#refusal : this.#yes(rule);
  }

  #yes(rule: PlacedRule): Verdict {
    return { isAllowed: true, rule: this.#prefix + rule.name };
  }

  #no(rule: PlacedRule): Verdict {
    return { isAllowed: false, rule: this.#prefix + rule.name };
  }
}

const publicAddress: Verdict = { isAllowed: true, rule: 'public_address' };
/** No policy, ceiling or setting allows it: behind it is everything. */
export const daemonAddress: Verdict = { isAllowed: false, rule: 'daemon_address' };
/** In a range that the operator has named for all. */
const namedAddress: Verdict = { isAllowed: true, rule: 'SQUASH_EGRESS_ALLOW_CIDRS' };

/** A policy under a ceiling: what both allow. */
class Limited implements Policy {
  readonly isOpen: boolean;
  readonly refusedNames: 'refuse' | 'nxdomain';
  readonly #own: Policy;
  readonly #ceiling: Policy;

  constructor(own: Policy, ceiling: Policy) {
    this.#own = own;
    this.#ceiling = ceiling;
    this.isOpen = own.isOpen && ceiling.isOpen;
    this.refusedNames = own.refusedNames;
  }

  decideName(host: string): Verdict {
    return both(this.#own.decideName(host), this.#ceiling.decideName(host));
  }

  /** Whoever writes the ceiling bounds what others name. */
  namesHost(host: string, port: number | undefined): boolean {
    return this.#own.namesHost(host, port);
  }

  decideConnection(destination: Destination): Verdict {
    return both(this.#own.decideConnection(destination), this.#ceiling.decideConnection(destination));
  }

  decideAddress(destination: Destination, address: string): Verdict {
    return both(
      this.#own.decideAddress(destination, address),
      this.#ceiling.decideAddress(destination, address),
    );
  }

  needsRequests(destination: Destination): boolean {
    return this.#own.needsRequests(destination) || this.#ceiling.needsRequests(destination);
  }

  decideRequest(destination: Destination, request: RequestAsked): Verdict {
    return both(
      this.#own.decideRequest(destination, request),
      this.#ceiling.decideRequest(destination, request),
    );
  }
}

/** The ceiling's refusal is named first: no change of the sandbox's own policy would mend it. */
function both(own: Verdict, ceiling: Verdict): Verdict {
  return ceiling.isAllowed ? own : ceiling;
}

function isConditional(rule: PolicyRule): boolean {
  return rule.methods !== undefined || rule.paths !== undefined;
}

function hasPort({ ports }: PolicyRule, port: number): boolean {
  return ports === undefined || ports.some(({ first, last }) => port >= first && port <= last);
}

function hasRequest({ methods, paths }: PolicyRule, { method, path }: RequestAsked): boolean {
  if (!hasMethod(methods, method)) return false;
  return paths === undefined || paths.some((prefix) => isBelow(path, prefix));
}

/** HEAD is GET without the body. */
function hasMethod(methods: PolicyRule['methods'], method: string): boolean {
  if (methods === undefined || methods.includes(method)) return true;
  return method === 'HEAD' && methods.includes('GET');
}

/** Some servers make no difference between `/Admin` and `/admin`: what is denied is denied in both. */
function isDeniedRequest({ methods, paths }: PolicyRule, { method, path }: RequestAsked): boolean {
  if (!hasMethod(methods, method.toUpperCase())) return false;
  const folded = path.toLowerCase();
  return paths === undefined || paths.some((prefix) => isBelow(folded, prefix.toLowerCase()));
}

/** `/v1` holds `/v1` and `/v1/models`, not `/v1beta`; `/v1/` holds what is below only. */
function isBelow(path: string, prefix: string): boolean {
  if (!path.startsWith(prefix)) return false;
  return path.length === prefix.length || prefix.endsWith('/') || path[prefix.length] === '/';
}
