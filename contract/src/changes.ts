/**
 * What a sandbox whose root is the host's has written over a directory of the host, and bringing it there.
 *
 * What a newcomer would get wrong: nothing is applied by itself. Names are chosen one by one, and some are held back until
 * they are asked for (`policy/src/paths/protected.ts` has them): what the host's own programs run or obey.
 */
import { z } from 'zod';
import { changeLimits } from './change-limits.ts';
import { isPlainPath } from './host-directory.ts';
import { differenceSchema } from './native-snapshot.ts';

export const changePlaceSchema = z
  .string()
  .refine((path) => path !== '/' && isPlainPath(path), {
    error: 'place: an absolute path, as host_paths has it',
  })
  .describe('a directory of the host that the sandbox has at level `cow`');

export const changeSchema = differenceSchema.extend({
  held: z
    .string()
    .nullable()
    .describe('why it is brought to the host only where that is asked for; null: it is not held'),
});
export type Change = z.infer<typeof changeSchema>;

export const changePageSchema = z.strictObject({
  place: z.string(),
  items: z
    .array(changeSchema)
    .describe(
      'by path below the place; of what was removed as it was. May be few while there is a next page',
    ),
  next: z.string().nullable().describe('`cursor` of the next page; null: that is all'),
});
export type ChangePage = z.infer<typeof changePageSchema>;

export const changePathSchema = z.string().refine((path) => path !== '/' && isPlainPath(path), {
  error: `paths: as the list of changes has them, each ${changeLimits.pathBytesMax} bytes at most`,
});

export const changeApplySchema = z.strictObject({
  place: changePlaceSchema,
  paths: z
    .array(changePathSchema)
    .min(1)
    .max(changeLimits.pathsMax)
    .describe('as the list has them, a directory before what is in it'),
  held: z.boolean().default(false).describe('also what is held back'),
  outside: z.boolean().default(false).describe('also links that lead out of the place'),
  overwrite: z
    .boolean()
    .default(false)
    .describe('also what somebody else has changed on the host since the sandbox began'),
});
export type ChangeApply = z.infer<typeof changeApplySchema>;

export const changeOutcomes = ['applied', 'same', 'held', 'conflict', 'refused'] as const;

export const changeAppliedSchema = z.strictObject({
  items: z.array(
    z.strictObject({
      path: z.string(),
      outcome: z
        .enum(changeOutcomes)
        .describe(
          '`same`: the host has it already; `conflict`: the host’s was changed since the sandbox began; else see `reason`',
        ),
      reason: z.string().nullable(),
    }),
  ),
});
export type ChangeApplied = z.infer<typeof changeAppliedSchema>;
