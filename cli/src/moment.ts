/** Times as people give them: so long from now, or RFC 3339. */
import { usageFailure } from './failure.ts';

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** @param direction `1`: in the future, `-1`: in the past @returns RFC 3339, UTC */
export function momentOf(text: string, direction: 1 | -1, flag: string): string {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const ms =
    count === undefined ? Date.parse(text) : Date.now() + direction * Number(count) * (unitMs[unit] ?? 0);
  const isKnown = count !== undefined || /^\d{4}-\d\d-\d\d(T|$)/.test(text);
  // Twelve thousand years on Dates end.
  if (!isKnown || Number.isNaN(new Date(ms).getTime()))
    throw usageFailure(`--${flag} takes 30m, 12h, 30d or 2030-01-31T12:00:00Z, not "${text}"`);
  return new Date(ms).toISOString();
}
