/**
 * The rules of one list, found by hash lookups: a name is looked up whole and once for each of its parents, an address
 * once for each length of range that the list has. No rule is compared that can not match.
 *
 * What a newcomer would get wrong: of several rules that match, the one that stands first in the policy is named, so
 * the answer to "which rule?" does not depend on how they are found.
 */
import type { PolicyRule } from '@squash/contract/policy';
import { type Address, bitsAhead, effectiveAddress } from './address/address.ts';
import { parseCidr } from './address/cidr.ts';

/** A rule with its place among all of its list. */
export interface PlacedRule extends PolicyRule {
  readonly order: number;
}

export type RuleTest = (rule: PlacedRule) => boolean;

export class RuleTable {
  readonly isEmpty: boolean;
  readonly #any: readonly PlacedRule[];
  readonly #hosts = new Map<string, PlacedRule[]>();
  /** By the name below which they match. */
  readonly #subdomains = new Map<string, PlacedRule[]>();
  /** By bytes of the address, then length, then the masked bytes. */
  readonly #networks: Readonly<Record<number, Map<number, Map<string, PlacedRule[]>>>> = {
    4: new Map(),
    16: new Map(),
  };

  constructor(rules: readonly PolicyRule[]) {
    this.isEmpty = rules.length === 0;
    const placed = rules.map((rule, order): PlacedRule => ({ ...rule, order }));
    this.#any = placed.filter((rule) => rule.target.kind === 'any');
    for (const rule of placed) this.#place(rule);
  }

  #place(rule: PlacedRule): void {
    const { target } = rule;
    if (target.kind === 'host') push(this.#hosts, target.host, rule);
    else if (target.kind === 'subdomains') push(this.#subdomains, target.host, rule);
    else if (target.kind === 'network') {
      const cidr = parseCidr(target.range);
      const byLength = cidr === undefined ? undefined : this.#networks[cidr.base.length];
      // The contract's parser has seen to it that it is one.
      if (cidr === undefined || byLength === undefined) throw new TypeError(`"${target.range}" is no range`);
      let byBytes = byLength.get(cidr.prefix);
      if (byBytes === undefined) byLength.set(cidr.prefix, (byBytes = new Map()));
      push(byBytes, masked(cidr.base, cidr.prefix), rule);
    }
  }

  /** The first rule for this name that passes the test. `*` counts. */
  host(host: string, test: RuleTest): PlacedRule | undefined {
    let first = best(this.#any, test, undefined);
    first = best(this.#hosts.get(host), test, first);
    for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
      first = best(this.#subdomains.get(host.slice(dot + 1)), test, first);
    }
    return first;
  }

  /**
   * The first rule whose range holds the address, in the form given or in the one it reaches. `*` does not count.
   * @param prefixMin shorter ranges do not count either; of the address that is reached
   */
  network(address: Address, test: RuleTest, prefixMin = 0): PlacedRule | undefined {
    const effective = effectiveAddress(address);
    const isLong = (ahead: number) => (prefix: number) => prefixMin === 0 || prefix >= ahead + prefixMin;
    const first = this.#inRanges(effective, test, { isLong: isLong(0), before: undefined });
    if (effective === address) return first;
    return this.#inRanges(address, test, { isLong: isLong(bitsAhead(address)), before: first });
  }

  /** The first `*` that passes the test. */
  any(test: RuleTest): PlacedRule | undefined {
    return best(this.#any, test, undefined);
  }

  #inRanges(
    address: Address,
    test: RuleTest,
    {
      isLong,
      before,
    }: { readonly isLong: (prefix: number) => boolean; readonly before: PlacedRule | undefined },
  ): PlacedRule | undefined {
    let first = before;
    for (const [prefix, byBytes] of this.#networks[address.length] ?? []) {
      if (isLong(prefix)) first = best(byBytes.get(masked(address, prefix)), test, first);
    }
    return first;
  }
}

/** The first one that passes, or `before` where that stands earlier still. */
function best(
  rules: readonly PlacedRule[] | undefined,
  test: RuleTest,
  before: PlacedRule | undefined,
): PlacedRule | undefined {
  const found = rules?.find(test);
  if (found === undefined) return before;
  return before === undefined || found.order < before.order ? found : before;
}

function push(map: Map<string, PlacedRule[]>, key: string, rule: PlacedRule): void {
  const rules = map.get(key);
  if (rules === undefined) map.set(key, [rule]);
  else rules.push(rule);
}

/** The bytes up to the length, as a key. */
function masked(address: Address, prefix: number): string {
  const whole = prefix >>> 3;
  let key = '';
  for (let at = 0; at < whole; at += 1) key += String.fromCharCode(address[at] ?? 0);
  const rest = prefix & 7;
  return rest === 0 ? key : key + String.fromCharCode((address[whole] ?? 0) & (0xff00 >>> rest) & 0xff);
}
