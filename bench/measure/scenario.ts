/**
 * The shape of a measurement. A scenario compares subjects (Squash, a peer, a bare system call) that do the
 * same job; the runner interleaves their cycles, so that a noisy neighbour slows all of them alike.
 *
 * A subject takes its own time stamps: what it must prepare or clear away stands outside its clock.
 */
import type { ScenarioId } from '../options.ts';

/** Metric → value, or the values of a cycle that does many at once. A peer leaves out a step it does not have. */
export type Sample = Readonly<Record<string, number | readonly number[]>>;

export interface PresentSubject {
  readonly name: string;
  /** Run in every n-th round only: slow peers get fewer samples, spread over the whole scenario. */
  readonly every?: number;
  cycle(round: number): Promise<Sample>;
}

/** Shown in the table with the reason: a peer that is silently missing looks like one that was beaten. */
export interface AbsentSubject {
  readonly name: string;
  readonly absent: string;
}

export type Subject = PresentSubject | AbsentSubject;

/** S: a bare spawn's time. */
export const units = ['ms', 'S', 'MB', '%', '/s', 'MB/s'] as const;

export interface Metric {
  readonly id: string;
  readonly title: string;
  readonly unit: (typeof units)[number];
}

export interface Scenario {
  readonly id: ScenarioId;
  readonly title: string;
  /** What exactly is timed; printed above the table. */
  readonly about: string;
  readonly metrics: readonly Metric[];
  /** Unmeasured rounds before: the first exec of a program pays for page cache and JIT. */
  readonly warmups: number;
  readonly rounds: number;
  /** No further round begins after this many; fewer samples then, which the table says. Two minutes where it is not set. */
  readonly secondsMax?: number;
  readonly subjects: readonly Subject[];
}

export interface MetricResult {
  readonly subject: string;
  readonly metric: string;
  readonly samples: readonly number[];
}

export interface ScenarioResult {
  readonly id: ScenarioId;
  readonly title: string;
  readonly about: string;
  readonly metrics: readonly Metric[];
  /** Bare spawns measured between the cycles of this scenario: what its ratios are against. */
  readonly spawnMs: readonly number[];
  readonly results: readonly MetricResult[];
  readonly absent: readonly AbsentSubject[];
  readonly seconds: number;
}
