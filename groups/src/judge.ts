/**
 * The one place where it is decided what an agent may do. Pure: its tier, and what it asks for. Whose agent it is nobody reads from a
 * request: the channel knows whose sandbox it belongs to.
 *
 * What a newcomer would get wrong: a group or chat that is not there counts as another's. So an agent that may not reach others
 * hears the same of what there is and of what there is not.
 */
import type { Effect, Tier } from '@squash/contract/tiers';

export type Asked =
  | { readonly right: 'message' | 'start' | 'read'; readonly isOwn: boolean }
  /** `everyS`: the least time between two times of what it makes; null: it makes nothing. */
  | { readonly right: 'schedule'; readonly isOwn: boolean; readonly everyS: number | null }
  | { readonly right: 'create'; readonly tier?: string };

export interface Verdict {
  readonly effect: Effect;
  /** What decided, as a row of the tier. */
  readonly rule: string;
}

export function judge(tier: Tier, asked: Asked): Verdict {
  const { schedule_every_s_min: least } = tier;
  if (asked.right === 'schedule' && asked.everyS !== null && asked.everyS < least)
    return { effect: 'deny', rule: `${tier.name}: schedule_every_s_min = ${least}` };
  if (asked.right !== 'create') {
    const whose = asked.isOwn ? 'own' : 'others';
    const effect = tier[asked.right][whose];
    return { effect, rule: `${tier.name}: ${asked.right}.${whose} = ${effect}` };
  }
  const { create, create_tiers: tiers } = tier;
  if (asked.tier !== undefined && create !== 'deny' && !tiers.includes(asked.tier))
    return { effect: 'deny', rule: `${tier.name}: create_tiers = ${tiers.join(', ') || 'none'}` };
  return { effect: create, rule: `${tier.name}: create = ${create}` };
}
