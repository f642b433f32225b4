/**
 * Measurements of one sandbox: a ring of numbers of a fixed size, so that what is kept of a sandbox has a bound, and is no
 * work for the collector. What is not known is NaN in there and null outside.
 */
import { limits } from '@squash/contract/limits';

const fields = [
  'atMs',
  'cpuUs',
  'memoryBytes',
  'pids',
  'diskBytes',
  'diskInodes',
  'inBytes',
  'outBytes',
  'connections',
  'connectionsOpen',
] as const;
type Field = (typeof fields)[number];

/** `atMs` is monotonic. */
export type Measured = Readonly<Record<Exclude<Field, 'atMs'>, number | null>> & { readonly atMs: number };

const samplesMax = limits.usageHistoryMs / limits.usageSampleMs;

export class UsageRing {
  readonly #numbers = new Float64Array(samplesMax * fields.length);
  #pushed = 0;

  push(measured: Measured): void {
    const at = (this.#pushed % samplesMax) * fields.length;
    for (const [index, field] of fields.entries()) this.#numbers[at + index] = measured[field] ?? Number.NaN;
    this.#pushed += 1;
  }

  /** Oldest first. */
  all(): readonly Measured[] {
    const kept = Math.min(this.#pushed, samplesMax);
    return Array.from({ length: kept }, (_, at) => this.#at((this.#pushed - kept + at) % samplesMax));
  }

  #at(index: number): Measured {
    const from = index * fields.length;
    const entries = fields.map((field, at) => {
      const value = this.#numbers[from + at] ?? Number.NaN;
      return [field, Number.isNaN(value) ? null : value];
    });
    return Object.fromEntries(entries) as Measured;
  }
}

/** Processor time between two measurements; where it was started anew in between, all that it has used since. */
export function cpuBetween(earlier: Measured | undefined, later: Measured): number | null {
  if (earlier === undefined || earlier.cpuUs === null || later.cpuUs === null) return null;
  return later.cpuUs < earlier.cpuUs ? later.cpuUs : later.cpuUs - earlier.cpuUs;
}
