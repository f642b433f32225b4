/**
 * What would let a refused address be reached, in words: who has to name it, and how. A rule's name alone tells what it is,
 * and nobody finds `SQUASH_EGRESS_ALLOW_CIDRS` by `private_address`.
 */
import { hostServiceName, isLoopbackName } from '@squash/contract/destination';
import { type Address, parseAddress } from './address/address.ts';
import { classifyAddress } from './address/ranges.ts';

/**
 * @param rule a verdict's; one of the ceiling's as well
 * @param address or a name of the loopback
 * @returns a sentence, or undefined where the rule is not about the kind of an address
 */
export function remedyOf(rule: string, address: string): string | undefined {
  if (isLoopbackName(address)) {
    return `It is the sandbox’s own and needs no rule. A service on the host’s loopback is "${hostServiceName}:PORT", where the operator permits it.`;
  }
  const asked = askedRemedies[rule];
  if (asked !== undefined) return asked;
  const [, ceiling, kind = ''] = /^(ceiling )?([a-z_]+)_(?:address|permitted)$/.exec(rule) ?? [];
  const parsed = parseAddress(address);
  if (kind === '' || kind === 'no' || kind === 'unknown' || parsed === undefined) return undefined;
  switch (kind) {
    case 'daemon':
      return 'Squash’s own API listens there: nothing allows it.';
    case 'loopback':
      return `A service on the host’s loopback is "${hostServiceName}:PORT", where the operator permits it.`;
    case 'host_not':
      return `The operator permits it: "${hostServiceName}:PORT" in egress-ceiling.json, for boxes SQUASH_HOST_PORTS=boxes, or 127.0.0.1 in SQUASH_EGRESS_ALLOW_CIDRS.`;
    case 'host':
      return `It is the host’s own: ${who(ceiling)} has to name ${address} itself.`;
    default:
      return `It is not public: ${who(ceiling)} has to name ${address}${rangeAround(parsed)}.`;
  }
}

/** What a program hears that has waited for a person, or could not. */
const askedRemedies: Readonly<Record<string, string>> = {
  ask_timed_out:
    'A person was asked and nobody answered in time. "squash approve" shows what waits, of a box "squash box approve"; a new try asks again.',
  ask_denied: 'A person was asked and said no.',
  ask_limit: 'A person would have to be asked, and this sandbox asks too much: try again later.',
};

/** Some kinds of place are a single address, and no range lies inside of that. */
function rangeAround(address: Address): string {
  const { range = '' } = classifyAddress(address);
  return /^\S+\/\d+$/.test(range) ? `, or a range around it inside ${range}` : '';
}

function who(ceiling: string | undefined): string {
  return ceiling === undefined
    ? 'the policy, or the operator in SQUASH_EGRESS_ALLOW_CIDRS,'
    : 'egress-ceiling.json';
}
