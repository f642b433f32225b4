/**
 * Values as the original's clients send them: numbers as text, null for "not given", lists as one string.
 *
 * Only `/cgi-bin` is this lenient. Each schema here has one sentence for everything that can be wrong with the
 * value, because the original answers one sentence per field and its clients compare it.
 */
import { z } from 'zod';

const decimal = /^\d{1,15}(\.\d{1,9})?$/;

/** A number, or text that is one, within bounds. */
export function tolerantNumber(sentence: string, range: { readonly min: number; readonly max: number }) {
  return z
    .union([z.number(), z.string().regex(decimal).transform(Number)], { error: sentence })
    .refine((value) => value >= range.min && value <= range.max, { error: sentence });
}

export function tolerantInteger(sentence: string, range: { readonly min: number; readonly max: number }) {
  return tolerantNumber(sentence, range).refine((value) => Number.isInteger(value), { error: sentence });
}

const unitSeconds: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3_600, d: 86_400 };

/**
 * Seconds: a number, or text as timeout(1) takes it (`90`, `"5m"`), which the original's shell version passed
 * through. Rounded up, so that no timeout becomes none, and clamped at the top, as its later versions do. None at all
 * is refused: to the shell version 0 is no limit, to the later ones the shortest.
 */
export function tolerantTimeout(sentence: string, range: { readonly min: number; readonly max: number }) {
  return z
    .union(
      [
        z.number(),
        z
          .string()
          .regex(/^\d{1,15}(\.\d{1,9})?[smhd]?$/)
          .transform(
            (text) => Number.parseFloat(text) * (unitSeconds[/[smhd]?$/.exec(text)?.[0] ?? ''] ?? 1),
          ),
      ],
      { error: sentence },
    )
    .refine((seconds) => seconds > 0, { error: `${sentence}, more than 0` })
    .transform((seconds) => Math.ceil(Math.min(Math.max(seconds, range.min), range.max)));
}

/** UTF-8 bytes, which is what limits and the kernel count; no Node here. */
export function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Text without NUL, which no argument, path or file name of Linux can hold. */
export function boundedText(name: string, bytesMax: number) {
  return z
    .string({ error: `${name} must be a string` })
    .refine((text) => !text.includes('\0'), { error: `${name} must not contain NUL` })
    .refine((text) => utf8Bytes(text) <= bytesMax, { error: `${name}: ${bytesMax} bytes at most` });
}
