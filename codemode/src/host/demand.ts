/**
 * Whether one more worker is worth its start, as a pure function. A start is a process and some tenth of a second of processor time, which the
 * runs that wait would have had; most programs are over long before.
 */
import { availableParallelism } from 'node:os';

export interface Demand {
  /** Runs without a worker. */
  readonly waiting: number;
  readonly idle: number;
  /** Workers on their way. */
  readonly starting: number;
  /** How long each worker that serves a run has had it. */
  readonly busyMs: readonly number[];
  /** How many shall be idle. */
  readonly spares: number;
  /** How many may be added. */
  readonly room: number;
  /** What a worker serves one run for, from the run's beginning until it may take the next; 0 while nobody knows. */
  readonly turnMs: number;
  /** What a start takes. */
  readonly startMs: number;
  /** A worker serves one run: whoever waits, waits for a start. */
  readonly servesOnce: boolean;
}

/** Further ones would only share the processors with these. */
export const startingMax = availableParallelism();

/** Milliseconds until another worker is to be started if nothing happens before; 0 is now, Infinity never. */
export function msUntilStart(demand: Demand): number {
  const { waiting, starting, busyMs, startMs } = demand;
  const wanted = waiting + Math.max(0, demand.spares - demand.idle);
  if (wanted <= starting || demand.room < 1 || starting >= startingMax) return Number.POSITIVE_INFINITY;
  const workers = busyMs.length + starting;
  if (workers === 0 || demand.servesOnce) return 0;
  // Each worker serves its share of those who wait, one turn after the other: a turn from this length on costs more than a start.
  const longMs = (startMs * workers) / wanted;
  if (demand.turnMs >= longMs) return 0;
  if (busyMs.length === 0) return Number.POSITIVE_INFINITY;
  // What has lasted for so long is expected to last for as long again, whatever was usual before.
  const ageMs = busyMs.reduce((sum, ms) => sum + ms, 0) / busyMs.length;
  return Math.max(0, longMs - ageMs);
}
