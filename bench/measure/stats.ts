/**
 * What is said about a set of samples: least, median, 95th percentile. No means: one stall of a shared
 * machine moves a mean and says nothing about the program.
 */

export interface Summary {
  readonly count: number;
  readonly min: number;
  readonly median: number;
  readonly p95: number;
}

/** The smallest sample that at least `share` of all samples do not exceed (nearest rank). */
export function quantile(sorted: readonly number[], share: number): number {
  const value = sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
  if (value === undefined) throw new RangeError('no samples');
  return value;
}

export function summarise(samples: readonly number[]): Summary {
  const sorted = samples.toSorted((a, b) => a - b);
  return {
    count: sorted.length,
    min: quantile(sorted, 0),
    median: quantile(sorted, 0.5),
    p95: quantile(sorted, 0.95),
  };
}
