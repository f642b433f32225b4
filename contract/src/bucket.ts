/** The bucket that a daemon keeps modules and snapshots in, as `/v1` tells of it. */
import { z } from 'zod';
import { moduleNameSchema, sandboxIdSchema, snapshotLabelSchema } from './ids.ts';

export const bucketSchema = z.strictObject({
  name: z.string(),
  endpoint: z.string().nullable().describe('null: Amazon’s own'),
  region: z.string(),
  prefix: z.string().describe('what all keys begin with; those that are told here are without it'),
  ephemeral: z.boolean().describe('files of sandboxes last in the bucket alone'),
  pending: z.int().describe('modules and snapshots that wait to be pushed'),
  problems: z.array(z.string()).describe('what does not work, and what is not the same here and there'),
});
export type BucketInfo = z.infer<typeof bucketSchema>;

export const bucketObjectSchema = z.strictObject({
  key: z.string(),
  size_bytes: z.int(),
  modified_at: z.string(),
});
export type BucketObject = z.infer<typeof bucketObjectSchema>;

export const bucketListSchema = z.strictObject({
  items: z.array(bucketObjectSchema).describe('sorted by key'),
  complete: z.boolean().describe('false: there are more; ask with a longer prefix'),
});
export type BucketList = z.infer<typeof bucketListSchema>;

/** Without the prefix of all keys. What is removed is removed for every machine. */
export const bucketKeySchema = z
  .string()
  .min(1)
  .max(512)
  .regex(/^(?!\/)(?!.*\/\/)(?!(.*\/)?\.{1,2}(\/|$))[^\p{Cc}]+$/u, {
    error: 'key must be one of the bucket, such as `modules/300-tools.squashfs`',
  });

const wish = {
  module: moduleNameSchema.optional(),
  sandbox: sandboxIdSchema.optional().describe('whose snapshot'),
  snapshot: snapshotLabelSchema.optional(),
};

function isOneThing(asked: {
  readonly module?: unknown;
  readonly sandbox?: unknown;
  readonly snapshot?: unknown;
}): boolean {
  const isSnapshot = asked.sandbox !== undefined && asked.snapshot !== undefined;
  const isPart = asked.sandbox !== undefined || asked.snapshot !== undefined;
  return asked.module === undefined ? isSnapshot : !isPart;
}
const oneThing = { error: 'name a module, or a sandbox and a snapshot' };

/** One module, or one snapshot of a sandbox that is here. */
export const bucketPullSchema = z.strictObject(wish).refine(isOneThing, oneThing);
export type BucketPull = z.infer<typeof bucketPullSchema>;

export const bucketPushSchema = z
  .strictObject({
    ...wish,
    replace: z.boolean().optional().describe('what is there under its name and is another goes'),
  })
  .refine(isOneThing, oneThing);
export type BucketPush = z.infer<typeof bucketPushSchema>;
