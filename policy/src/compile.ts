/**
 * From a policy as it is written to the `Policy` that the process asks. Pure: no clock, no network, no state.
 *
 * Deny always wins. What is allowed by nothing is refused. A ceiling is a second policy that is asked as well: both
 * must allow. Addresses that are not public are refused unless somebody named their range: the operator, or the
 * policy by a range or an address (a name or `*` names none), and the ceiling does not spare anybody that.
 */
import { type PolicyRule, type PolicySource, policyRules } from '@squash/contract/policy';
import { type Address, parseAddress } from './address/address.ts';
import { type Cidr, cidrContains } from './address/cidr.ts';
import { effectiveAddress } from './address/address.ts';
import { classifyAddress } from './address/ranges.ts';
import { type Destination, type Policy, publicAddressRule, type Verdict } from './policy.ts';
import { type PlacedRule, RuleTable, type RuleTest } from './rule-table.ts';

export interface PolicyParts {
  readonly policy: PolicySource;
  /** What no policy can exceed. */
  readonly ceiling: PolicySource | undefined;
  /** Ranges that are not public and count as public here: `SQUASH_EGRESS_ALLOW_CIDRS`. */
  readonly allowRanges: readonly Cidr[];
}

/** Nothing is denied, and nothing is allowed either. */
export const noRule = 'not_allowed';

/** @throws TypeError where the sources did not go through the contract's schema */
export function compilePolicy({ policy, ceiling, allowRanges }: PolicyParts): Policy {
  const own = new RuleSet(policy, '', allowRanges);
  if (ceiling === undefined) return own;
  return new Limited(own, new RuleSet(ceiling, 'ceiling ', allowRanges));
}

interface HttpRequest {
  readonly method: string;
  readonly path: string;
}

class RuleSet implements Policy {
  readonly isOpen: boolean;
  readonly refusedNames: 'refuse' | 'nxdomain';
  readonly #allow: RuleTable;
  readonly #deny: RuleTable;
  readonly #allowRanges: readonly Cidr[];
  readonly #prefix: string;
  readonly #refusal: Verdict;
  readonly #hasConditions: boolean;

  constructor(source: PolicySource, prefix: string, allowRanges: readonly Cidr[]) {
    const rules = policyRules(source);
    this.#allow = new RuleTable(rules.allow);
    this.#deny = new RuleTable(rules.deny);
    this.#allowRanges = allowRanges;
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
    return this.#answer(this.#allow.host(host, () => true));
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

  decideAddress({ port }: Destination, text: string): Verdict {
    const address = parseAddress(text);
    if (address === undefined) return { isAllowed: false, rule: `${this.#prefix}no_address` };
    const denying = this.#deny.network(address, (rule) => !isConditional(rule) && hasPort(rule, port));
    if (denying !== undefined) return this.#no(denying);
    const naming = this.#allow.network(address, (rule) => hasPort(rule, port));
    if (naming !== undefined) return this.#yes(naming);
    if (this.#isNamed(address)) return namedAddress;
    const { kind } = classifyAddress(address);
    return kind === 'public' ? publicAddress : { isAllowed: false, rule: `${this.#prefix}${kind}_address` };
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

  decideRequest(destination: Destination, request: HttpRequest): Verdict {
    const concerns: RuleTest = (rule) => hasPort(rule, destination.port) && hasRequest(rule, request);
    const denying = this.#find(
      this.#deny,
      destination,
      (rule) => hasPort(rule, destination.port) && isDeniedRequest(rule, request),
    );
    if (denying !== undefined) return this.#no(denying);
    return this.#allowing(destination, concerns);
  }

  /** An address that is not public is not among "everything public": only a range that holds it allows it. */
  #allowing(destination: Destination, test: RuleTest): Verdict {
    if (destination.host !== undefined) return this.#answer(this.#allow.host(destination.host, test));
    const address = parseAddress(destination.address ?? '');
    if (address === undefined) return this.#refusal;
    const naming = this.#allow.network(address, test);
    if (naming !== undefined) return this.#yes(naming);
    const everything = this.#allow.any(test);
    const kind = this.#kindOf(address);
    if (everything === undefined || kind === 'public') return this.#answer(everything);
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

  #kindOf(address: Address): string {
    return this.#isNamed(address) ? 'public' : classifyAddress(address).kind;
  }

  #isNamed(address: Address): boolean {
    const effective = effectiveAddress(address);
    return this.#allowRanges.some((range) => cidrContains(range, effective) || cidrContains(range, address));
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

const publicAddress: Verdict = { isAllowed: true, rule: publicAddressRule };
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

  decideRequest(destination: Destination, request: HttpRequest): Verdict {
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

function hasRequest({ methods, paths }: PolicyRule, { method, path }: HttpRequest): boolean {
  if (methods !== undefined && !methods.includes(method)) return false;
  return paths === undefined || paths.some((prefix) => isBelow(path, prefix));
}

/** Some servers make no difference between `/Admin` and `/admin`: what is denied is denied in both. */
function isDeniedRequest({ methods, paths }: PolicyRule, { method, path }: HttpRequest): boolean {
  if (methods !== undefined && !methods.includes(method.toUpperCase())) return false;
  const folded = path.toLowerCase();
  return paths === undefined || paths.some((prefix) => isBelow(folded, prefix.toLowerCase()));
}

/** `/v1` holds `/v1` and `/v1/models`, not `/v1beta`; `/v1/` holds what is below only. */
function isBelow(path: string, prefix: string): boolean {
  if (!path.startsWith(prefix)) return false;
  return path.length === prefix.length || prefix.endsWith('/') || path[prefix.length] === '/';
}
