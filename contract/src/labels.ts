/** Labels: whatever a client wants to find a thing by. Sandboxes, snapshots and volumes have them. */
import { z } from 'zod';
import { limits } from './limits.ts';
import { boundedText } from './tolerant.ts';

export const labelKeySchema = z
  .string()
  .max(limits.labelKeyCharsMax)
  // "squash." is the daemon's own: a snapshot with such a label may be removed when it is in the bucket.
  .regex(/^(?!squash\.)[A-Za-z0-9][A-Za-z0-9_./-]*$/, {
    error:
      'a label’s key has letters, digits, "_", ".", "/" and "-", begins with a letter or digit, and not with "squash."',
  });
export const labelValueSchema = boundedText('a label', limits.labelValueBytesMax);

const tooManyLabels = { error: `labels: ${limits.labelsMax} at most` };
export const labelsSchema = z
  .record(labelKeySchema, labelValueSchema)
  .refine((labels) => Object.keys(labels).length <= limits.labelsMax, tooManyLabels)
  .describe('whatever the client wants to find it by');

export const labelsChangeSchema = z
  .record(labelKeySchema, labelValueSchema.nullable())
  .describe('each is set, or with null removed; the others stay');

/** `key=value` or `key`, separated by commas: what is found has all of them. */
export const labelFilterSchema = z
  .string()
  .max(4_096)
  .transform((text) =>
    text.split(',').map((each) => {
      const at = each.indexOf('=');
      return at < 0 ? { key: each, value: undefined } : { key: each.slice(0, at), value: each.slice(at + 1) };
    }),
  );
export type LabelFilter = z.infer<typeof labelFilterSchema>;
