/** Times as people write them: `90s`, `10m`, `2h`, `7d`. A number alone is seconds. */
import type { Flags } from './arguments.ts';
import { usageFailure } from './failure.ts';

const seconds = { s: 1, m: 60, h: 3_600, d: 86_400 } as const;

/** `0`: for ever. Undefined where the option was not given. */
export function durationSeconds(
  flags: Flags,
  name: string,
  range: { readonly min: number; readonly max: number },
): number | undefined {
  const text = flags.text(name);
  if (text === undefined) return undefined;
  const [, digits, unit = 's'] = /^(\d{1,9})([smhd])?$/.exec(text) ?? [];
  const value = digits === undefined ? Number.NaN : Number(digits) * seconds[unit as keyof typeof seconds];
  if (value === 0 || (value >= range.min && value <= range.max)) return value;
  throw usageFailure(
    `--${name} takes a time such as 90s, 10m, 2h or 7d, of seconds from ${range.min} to ${range.max}, not "${text}"`,
  );
}
