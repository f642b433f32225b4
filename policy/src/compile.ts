/**
 * From a policy as it is written to the `Policy` that the process asks. Pure: no clock, no network, no state.
 *
 * Deny always wins. What is asked for and not allowed as narrowly waits for a person (`asking.ts`). What is allowed by nothing is refused. A ceiling is a second policy that is asked as well: both
 * must allow. Addresses that are not public are refused unless somebody named their range: the operator, or the
 * policy by a range or an address (a name or `*` names none), and the ceiling does not spare anybody that.
 *
 * What a newcomer would get wrong: a range names a place that is not public only if it lies inside that kind of place.
 * `0.0.0.0/0` and `169.254.0.0/16` hold the metadata service's address and mean something else.
 */
import { callerServiceName, hostServiceName, isServiceName } from '@squash/contract/destination';
import {
  namedRules,
  policyLimits,
  type PolicyRule,
  type PolicyRuleSource,
  type PolicySource,
  policyRules,
} from '@squash/contract/policy';
import { type Asked, isAsNarrow, isBelow, narrowest, questionOf } from './asking.ts';
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
  /** `SQUASH_HOST_PORTS` lets this sandbox reach what its policy names of the host's loopback, where there is no ceiling. */
  readonly reachesHost?: boolean;
  /** Without it no address is the host's own: a question that nobody will dial for. */
  readonly host?: DiallingHost;
  /** What the operator has approved for all sandboxes: it answers questions that a policy puts, and allows nothing else. */
  readonly approved?: readonly PolicyRuleSource[];
}

/** What all rules of one policy and its ceiling are read with. */
interface Frame {
  readonly allowRanges: readonly Cidr[];
  readonly host: DiallingHost;
  readonly approved: RuleTable;
  /** Somebody has to permit the host's loopback: the ceiling, where there is one, else a range of the operator's or his word for boxes. */
  readonly hasCeiling: boolean;
  readonly reachesHost: boolean;
}

const nowhere: DiallingHost = { isOwn: () => false, isDaemon: () => false };

/** Nothing is denied, and nothing is allowed either. */
export const noRule = 'not_allowed';

/** @throws TypeError where the sources did not go through the contract's schema */
export function compilePolicy(parts: PolicyParts): Policy {
  const { policy, ceiling, allowRanges, host = nowhere, approved = [], reachesHost = false } = parts;
  const always = new RuleTable(namedRules('always', approved));
  const frame: Frame = {
    allowRanges,
    host,
    approved: always,
    hasCeiling: ceiling !== undefined,
    reachesHost,
  };
  const own = new RuleSet(policy, '', frame);
  if (ceiling === undefined) return own;
  return new Limited(own, new RuleSet(ceiling, 'ceiling ', frame));
}

class RuleSet implements Policy {
  readonly isOpen: boolean;
  readonly refusedNames: 'refuse' | 'nxdomain';
  readonly #allow: RuleTable;
  readonly #deny: RuleTable;
  readonly #ask: RuleTable;
  readonly #waitMs: number;
  readonly #frame: Frame;
  readonly #prefix: string;
  readonly #refusal: Verdict;
  readonly #hasConditions: boolean;

  constructor(source: PolicySource, prefix: string, frame: Frame) {
    const rules = policyRules(source);
    this.#allow = new RuleTable(rules.allow);
    this.#deny = new RuleTable(rules.deny);
    this.#ask = new RuleTable(rules.ask);
    this.#waitMs = source.ask_timeout_ms ?? policyLimits.askTimeoutMs.default;
    this.#frame = frame;
    this.#prefix = prefix;
    this.#refusal = { isAllowed: false, rule: prefix + (this.#allow.isEmpty ? 'allow[0] none' : noRule) };
    this.#hasConditions = [...rules.allow, ...rules.deny, ...rules.ask].some(isConditional);
    this.isOpen =
      this.#deny.isEmpty &&
      this.#ask.isEmpty &&
      this.#allow.any((rule) => rule.ports === undefined && !isConditional(rule)) !== undefined;
    this.refusedNames = rules.dns;
  }

  decideName(host: string): Verdict {
    const denying = this.#deny.host(host, (rule) => rule.ports === undefined && !isConditional(rule));
    if (denying !== undefined) return this.#no(denying);
    const asked = { destination: { host, address: undefined, port: 0 }, request: undefined };
    const naming = (test: RuleTest) => this.#naming(host, test);
    const isPlain: RuleTest = (rule) => rule.ports === undefined && !isConditional(rule);
    // Where one port of it is allowed, a query tells no more than a connection to that port would.
    const asking = this.#naming(
      host,
      (rule) =>
        isPlain(rule) && naming((one) => isAsNarrow({ ...one, ports: undefined }, rule, asked)) === undefined,
      this.#ask,
    );
    if (asking !== undefined) return this.#wait(asking);
    const allowing = naming(() => true);
    const other = allowing ?? this.#naming(host, () => true, this.#ask);
    return allowing === undefined && other !== undefined ? this.#wait(other) : this.#answer(allowing);
  }

  namesHost(host: string, port: number | undefined): boolean {
    const isNaming: RuleTest = (rule) =>
      rule.target.kind === 'host' && (port === undefined || hasPort(rule, port));
    return (this.#allow.host(host, isNaming) ?? this.#ask.host(host, isNaming)) !== undefined;
  }

  decideConnection(destination: Destination): Verdict {
    const { port } = destination;
    const denying = this.#find(
      this.#deny,
      destination,
      (rule) => !isConditional(rule) && hasPort(rule, port),
    );
    if (denying !== undefined) return this.#no(denying);
    const asking = this.#asking({ destination, request: undefined });
    if (asking !== undefined) return asking.verdict;
    const verdict = this.#allowing(destination, (rule) => hasPort(rule, port));
    if (verdict.isAllowed) return verdict;
    // Its requests are asked for one by one.
    const [reading] = this.#concerning(this.#ask, destination, (rule) => hasPort(rule, port));
    return reading === undefined ? verdict : this.#yes(reading);
  }

  decideAddress(destination: Destination, text: string): Verdict {
    const { port } = destination;
    // Whoever offers the port dials: nothing is dialled here.
    if (destination.host === callerServiceName) return this.#refusal;
    const address = parseAddress(text);
    if (address === undefined) return { isAllowed: false, rule: `${this.#prefix}no_address` };
    if (this.#frame.host.isDaemon(effectiveAddress(address), port)) return daemonAddress;
    const denying = this.#deny.network(address, (rule) => !isConditional(rule) && hasPort(rule, port));
    if (denying !== undefined) return this.#no(denying);
    const { kind, prefixMin } = this.#placeOf(address);
    if (destination.host === hostServiceName) return this.#decideHost(destination, kind);
    const isHere: RuleTest = (rule) => hasPort(rule, port);
    const naming = this.#allow.network(address, isHere, prefixMin);
    const asking = this.#ask.network(address, isHere, prefixMin);
    if (destination.host === undefined) {
      // Before this address was asked for the connection has been.
      const named = naming ?? asking;
      if (named !== undefined) return this.#yes(named);
    } else if (asking !== undefined) {
      // The question would have been about the name, and a name can lead anywhere tomorrow.
      const asked = { destination, request: undefined };
      if (naming === undefined || !isAsNarrow(naming, asking, asked)) return this.#no(asking);
    }
    if (naming !== undefined) return this.#yes(naming);
    if (kind === 'named') return namedAddress;
    return kind === 'public' ? publicAddress : { isAllowed: false, rule: `${this.#prefix}${kind}_address` };
  }

  /** The policy names it, and somebody above the policy has to permit it: its writer may be less than the operator. */
  #decideHost({ port }: Destination, kind: string): Verdict {
    const isHere: RuleTest = (rule) => hasPort(rule, port);
    const named = this.#naming(hostServiceName, isHere) ?? this.#naming(hostServiceName, isHere, this.#ask);
    const verdict = this.#answer(named);
    const { hasCeiling, reachesHost } = this.#frame;
    if (!verdict.isAllowed || hasCeiling || reachesHost || kind === 'named') return verdict;
    return { isAllowed: false, rule: `${this.#prefix}host_not_permitted` };
  }

  needsRequests(destination: Destination): boolean {
    if (!this.#hasConditions) return false;
    const concerns: RuleTest = (rule) => hasPort(rule, destination.port);
    const denying = this.#find(this.#deny, destination, (rule) => isConditional(rule) && concerns(rule));
    if (denying !== undefined) return true;
    const asking = this.#concerning(this.#ask, destination, concerns);
    const sparing = [this.#allow, this.#frame.approved].flatMap((table) =>
      this.#concerning(table, destination, concerns),
    );
    const asked = { destination, request: undefined };
    for (const rule of asking) {
      const sparingIt = sparing.filter((one) => isAsNarrow(one, rule, asked));
      if (isConditional(rule) || (sparingIt.length > 0 && sparingIt.every(isConditional))) return true;
    }
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
    const { upgrade } = request;
    const asking = this.#asking({ destination, request });
    const isChanging = upgrade !== undefined && this.needsRequests(destination);
    if (asking !== undefined) {
      const mayChange = !isChanging || asking.rule.upgrades?.includes(upgrade) === true;
      return mayChange ? asking.verdict : this.#noUpgrade;
    }
    const verdict = this.#allowing(destination, concerns);
    if (!verdict.isAllowed || !isChanging) return verdict;
    const changing = this.#allowing(
      destination,
      (rule) => concerns(rule) && rule.upgrades?.includes(upgrade) === true,
    );
    return changing.isAllowed ? changing : this.#noUpgrade;
  }

  get #noUpgrade(): Verdict {
    return { isAllowed: false, rule: `${this.#prefix}upgrade_not_allowed` };
  }

  /** The rule that puts a question, or the operator's that answers it. Undefined: `allow` has the word. */
  #asking(asked: Asked): { readonly verdict: Verdict; readonly rule: PlacedRule } | undefined {
    const { destination, request } = asked;
    const isHere: RuleTest = (rule) => hasPort(rule, destination.port);
    const isMeant: RuleTest = (rule) =>
      isHere(rule) && (request === undefined ? !isConditional(rule) : isDeniedRequest(rule, request));
    const asking = this.#concerning(this.#ask, destination, isMeant);
    if (asking.length === 0) return undefined;
    const isSparing: RuleTest = (rule) =>
      isHere(rule) && (request === undefined || hasRequest(rule, request));
    const allowing = this.#concerning(this.#allow, destination, isSparing);
    const approved = this.#concerning(this.#frame.approved, destination, isSparing);
    const unspared = asking.filter((rule) => !allowing.some((one) => isAsNarrow(one, rule, asked)));
    const answerOf = (rule: PlacedRule) => approved.find((one) => isAsNarrow(one, rule, asked));
    const open = narrowest(
      unspared.filter((rule) => answerOf(rule) === undefined),
      asked,
    );
    if (open !== undefined) {
      const question = questionOf(open, asked, this.#waitMs);
      return { verdict: { ...this.#wait(open), question }, rule: open };
    }
    const rule = unspared.map(answerOf)[0];
    return rule === undefined ? undefined : { verdict: this.#yes(rule), rule };
  }

  /** All of them, as far as they can mean the destination: "everything public" means no address that is not. */
  #concerning(table: RuleTable, destination: Destination, test: RuleTest): readonly PlacedRule[] {
    const found: PlacedRule[] = [];
    const collect: RuleTest = (rule) => {
      if (test(rule)) found.push(rule);
      return false;
    };
    if (destination.host !== undefined) {
      this.#naming(destination.host, collect, table);
      return found;
    }
    const address = parseAddress(destination.address ?? '');
    if (address === undefined) return [];
    const { kind, prefixMin } = this.#placeOf(address);
    const isPublic = kind === 'public' || kind === 'named';
    table.network(address, collect, isPublic ? 0 : prefixMin);
    if (isPublic) table.any(collect);
    return found;
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

  /** Host and caller behind their names are no hosts of the Internet: neither `*` nor a wildcard means them. */
  #naming(host: string, test: RuleTest, table: RuleTable = this.#allow): PlacedRule | undefined {
    if (!isServiceName(host)) return table.host(host, test);
    return table.host(host, (rule) => rule.target.kind === 'host' && test(rule));
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

  #wait(rule: PlacedRule): Verdict {
    return { ...this.#no(rule), isAsked: true };
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
