/**
 * What a group's sandboxes may connect to, use and have of the host: what the group names, as far as its tier allows it; and the channel.
 *
 * Asked where a group is made and again where a run begins: the tier may have become narrower in between, and then the run fails
 * with the rule instead of having less than its group says.
 */
import {
  callerServiceName,
  type DestinationPattern,
  isServiceName,
  parsePattern,
} from '@squash/contract/destination';
import { groupChannelPort } from '@squash/contract/group-limits';
import type { GroupMount } from '@squash/contract/group-mounts';
import type { SecretSubset } from '@squash/contract/secrets';
import type { Tier } from '@squash/contract/tiers';

interface Bounds extends Pick<Tier, 'name' | 'mounts'> {
  readonly reach: readonly string[];
  readonly secrets: SecretSubset;
}

export interface Wanted {
  readonly reach: readonly string[];
  readonly secrets: readonly string[];
  readonly mounts: readonly Pick<GroupMount, 'host' | 'mode'>[];
}

/** The rule that refuses it; undefined: the tier allows it. */
export function forbidden(tier: Bounds, { reach, secrets, mounts }: Wanted): string | undefined {
  const far = reach.find((wanted) => !tier.reach.some((allowed) => covers(allowed, wanted)));
  if (far !== undefined)
    return `${tier.name}: reach = ${tier.reach.join(', ') || 'nothing'}; the group wants "${far}"`;
  const of = tier.secrets;
  const secret = of === 'all' ? undefined : secrets.find((wanted) => !of.includes(wanted));
  if (secret !== undefined)
    return `${tier.name}: secrets = ${of === 'all' ? of : of.join(', ') || 'none'}; the group wants "${secret}"`;
  for (const mount of mounts) {
    const rule = forbiddenMount(tier, mount);
    if (rule !== undefined) return rule;
  }
  return undefined;
}

/** The same of one directory of the host. */
export function forbiddenMount(
  { name, mounts }: Pick<Bounds, 'name' | 'mounts'>,
  { host, mode }: Wanted['mounts'][number],
): string | undefined {
  if (mounts === 'rw' || mounts === mode) return undefined;
  return `${name}: mounts = ${mounts}; the group wants "${host}" ${mode}`;
}

/** What its policy allows. */
export function allowed({ reach }: Pick<Wanted, 'reach'>): readonly string[] {
  return [...reach, `${callerServiceName}:${groupChannelPort}`];
}

/**
 * Whether all that `wanted` names is named by `limit`. A range of addresses opens what no wildcard does, so it has to be named
 * itself; the same goes for services of the host and of callers.
 */
function covers(limit: string, wanted: string): boolean {
  const [outer, inner] = [parsePattern(limit), parsePattern(wanted)];
  if (!outer.ok || !inner.ok) return false;
  return hasPorts(outer.pattern, inner.pattern) && hasTarget(outer.pattern, inner.pattern);
}

function hasPorts({ ports: outer }: DestinationPattern, { ports: inner }: DestinationPattern): boolean {
  if (outer === undefined) return true;
  return inner !== undefined && outer.first <= inner.first && inner.last <= outer.last;
}

function hasTarget({ target: outer }: DestinationPattern, { target: inner }: DestinationPattern): boolean {
  if (outer.kind === inner.kind && nameOf(outer) === nameOf(inner)) return true;
  if (inner.kind === 'network' || inner.kind === 'preset' || inner.kind === 'any') return false;
  if (isServiceName(inner.host)) return false;
  if (outer.kind === 'any') return true;
  return outer.kind === 'subdomains' && inner.host.endsWith(`.${outer.host}`);
}

function nameOf(target: DestinationPattern['target']): string {
  switch (target.kind) {
    case 'any':
      return '*';
    case 'network':
      return target.range;
    case 'preset':
      return target.preset;
    case 'host':
    case 'subdomains':
      return target.host;
  }
}
