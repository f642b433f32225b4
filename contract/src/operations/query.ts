/** What several operations take in their query string. What is text there has its own type in the description: `type`. */
import { z } from 'zod';
import { limits } from '../limits.ts';

/** A number in a query string. Both dialects word it the same: the original has no paging. */
export const queryInteger = (name: string, { min, max }: { readonly min: number; readonly max: number }) =>
  z
    .string()
    .regex(/^\d{1,16}$/, { error: `${name} must be a whole number`, abort: true })
    .transform(Number)
    .refine((value) => value >= min && value <= max, {
      error: `${name} must be from ${min} to ${max}`,
    })
    .meta({ type: 'integer', minimum: min, maximum: max })
    .optional();

/** Yes or no in a query string. */
export const queryFlag = (name: string) =>
  z
    .enum(['true', 'false'], { error: `${name} must be true or false` })
    .transform((text) => text === 'true')
    .meta({ type: 'boolean' })
    .optional();

/** Of every list in `/v1`: it answers `items` and `next`. */
export const pageShape = {
  limit: queryInteger('limit', { min: 1, max: limits.pageItemsMax }).describe(
    `at most so many, default ${limits.pageItemsDefault}`,
  ),
  cursor: z.string().max(512).optional().describe('`next` of the page before'),
};

/** Of lists of differences, whose cursor is a path. */
export const diffPageShape = {
  limit: queryInteger('limit', { min: 1, max: limits.diffItemsMax }).describe(
    `at most so many, default ${limits.diffItemsDefault}`,
  ),
  cursor: z
    .string()
    .max(2 * limits.diffCursorBytesMax)
    .optional()
    .describe('`next` of the page before'),
};
