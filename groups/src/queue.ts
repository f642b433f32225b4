/**
 * Which of the waiting runs begin now. Pure: what waits, what runs, and how many may.
 *
 * Runs of one group go one after the other, in the order in which they were asked for, also where the first waits to be tried
 * again: its folder has one writer. Groups take turns by their tier's priority and the age of their first run, so none that asks a
 * lot keeps others waiting longer than its runs take, and none of a high tier for ever.
 */
import { groupLimits } from '@squash/contract/group-limits';
import type { Tier as WholeTier } from '@squash/contract/tiers';
import type { RunRow } from './rows.ts';

type Waiting = Pick<RunRow, 'run' | 'group' | 'state' | 'createdMs' | 'notBeforeMs' | 'sandbox'>;

type Tier = Pick<WholeTier, 'name' | 'runs_max' | 'priority'>;

export interface QueueBounds {
  readonly nowMs: number;
  /** Reads the store: asked once for each group. */
  readonly tierOf: (group: string) => Tier;
}

export interface Turn {
  /** Their numbers. */
  readonly begin: readonly number[];
  /** When there may be another, without anything having happened; null: never. */
  readonly againMs: number | null;
}

/** @param open runs that wait or run, and those of which a sandbox is left, oldest first */
export function nextTurn(open: readonly Waiting[], { nowMs, tierOf }: QueueBounds): Turn {
  const busy = open.filter(({ state, sandbox }) => state === 'running' || sandbox !== null);
  const groups = new Set(busy.map(({ group }) => group));
  const perTier = new Map<string, number>();
  for (const { group } of busy) count(perTier, tierOf(group).name);
  const ready: { readonly run: number; readonly tier: Tier; readonly rank: number }[] = [];
  let againMs: number | null = null;
  for (const { run, group, state, createdMs, notBeforeMs } of open) {
    if (state !== 'queued' || groups.has(group)) continue;
    groups.add(group);
    if (notBeforeMs > nowMs) {
      againMs = Math.min(againMs ?? notBeforeMs, notBeforeMs);
      continue;
    }
    const tier = tierOf(group);
    // By a clock that has been put back it has not waited yet.
    const waitedMs = Math.max(0, nowMs - createdMs);
    ready.push({ run, tier, rank: tier.priority + Math.floor(waitedMs / groupLimits.priorityMs) });
  }
  const begin: number[] = [];
  // Those of one rank stay as they are: oldest first.
  for (const { run, tier } of ready.toSorted((one, other) => other.rank - one.rank)) {
    if (busy.length + begin.length >= groupLimits.runsMax) break;
    if ((perTier.get(tier.name) ?? 0) >= tier.runs_max) continue;
    count(perTier, tier.name);
    begin.push(run);
  }
  return { begin, againMs };
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
