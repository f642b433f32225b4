/**
 * A sandbox's network rules out of its row, and how they are shown in the original's field.
 */
import { nothing } from '@squash/contract/destination';
import { type PolicySource, policyOfAllowNet } from '@squash/contract/policy';
import type { SandboxRow } from '#store/rows.ts';
import type { NetworkRules } from './network.ts';

type RuleRow = Pick<SandboxRow, 'allowNet' | 'policy' | 'secrets' | 'ownSecrets' | 'upstream' | 'hostRoot'>;

export function rulesOf(row: RuleRow): NetworkRules {
  const { secrets, ownSecrets, upstream } = row;
  return { policy: policyOf(row), secrets, ownSecrets, upstream, isBox: row.hostRoot !== null };
}

function policyOf({ policy, allowNet }: Pick<RuleRow, 'policy' | 'allowNet'>): PolicySource {
  return policy ?? policyOfAllowNet(allowNet);
}

/** Whether anything can be reached under it, now or once a person agrees. */
export function opensAny({ allow, ask = [] }: PolicySource): boolean {
  return allow.length > 0 || ask.length > 0;
}

/** `allow_net` of a full policy: the destinations that it allows. What it denies and its conditions don't fit in there. */
export function shownAllowNet({ policy, allowNet }: Pick<RuleRow, 'policy' | 'allowNet'>): string[] | null {
  if (policy === null) return allowNet === null ? null : [...allowNet];
  const destinations = policy.allow.flatMap((rule) => (typeof rule === 'string' ? [rule] : rule.to));
  return destinations.length === 0 ? [nothing] : destinations;
}
