/** What several operations take in their query string. */
import { z } from 'zod';
import { limits } from '../limits.ts';

/** A number in a query string. Both dialects word it the same: the original has no paging. */
export const queryInteger = (name: string, range: { readonly min: number; readonly max: number }) =>
  z
    .string()
    .regex(/^\d{1,15}$/, { error: `${name} must be a whole number`, abort: true })
    .transform(Number)
    .refine((value) => value >= range.min && value <= range.max, {
      error: `${name} must be from ${range.min} to ${range.max}`,
    })
    .optional();

/** Of every list in `/v1`: it answers `items` and `next`. */
export const pageShape = {
  limit: queryInteger('limit', { min: 1, max: limits.pageItemsMax }).describe(
    `at most so many, default ${limits.pageItemsDefault}`,
  ),
  cursor: z.string().max(512).optional().describe('`next` of the page before'),
};
