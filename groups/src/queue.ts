/**
 * Which of the waiting runs begin now. Pure: what waits, what runs, and how many may.
 *
 * Runs of one group go one after the other, in the order in which they were asked for, also where the first waits to be tried
 * again: its folder has one writer. Groups take turns by their tier's priority and the age of their first run, so none that asks a
 * lot keeps others waiting longer than its runs take, and none of a high tier for ever.
 */
import { groupLimits } from '@squash/contract/group-limits';
import type { RunRow } from './rows.ts';

type Waiting = Pick<RunRow, 'run' | 'group' | 'state' | 'createdMs' | 'notBeforeMs' | 'sandbox'>;

export interface QueueBounds {
  readonly nowMs: number;
  readonly tierOf: (group: string) => {
    readonly name: string;
    readonly runs_max: number;
    readonly priority: number;
  };
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
  const ready: Waiting[] = [];
  let againMs: number | null = null;
  for (const waiting of open) {
    const { group, state, notBeforeMs } = waiting;
    if (state !== 'queued' || groups.has(group)) continue;
    groups.add(group);
    if (notBeforeMs > nowMs) againMs = Math.min(againMs ?? notBeforeMs, notBeforeMs);
    else ready.push(waiting);
  }
  const rank = ({ group, createdMs }: Waiting): number =>
    tierOf(group).priority + Math.floor((nowMs - createdMs) / groupLimits.priorityMs);
  const begin: number[] = [];
  // Those of one rank stay as they are: oldest first.
  for (const { run, group } of ready.toSorted((one, other) => rank(other) - rank(one))) {
    const { name, runs_max: most } = tierOf(group);
    if (busy.length + begin.length >= groupLimits.runsMax || (perTier.get(name) ?? 0) >= most) continue;
    count(perTier, name);
    begin.push(run);
  }
  return { begin, againMs };
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
