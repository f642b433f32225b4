/**
 * Snapshots as `/v1` has them: what a client asks for and what it is told.
 *
 * What a newcomer would get wrong: a snapshot holds what was written in one upper. Where `whole` is false it lies on the
 * one that was restored before it was taken, and shows the files of both.
 */
import { z } from 'zod';
import { snapshotLabelSchema } from './ids.ts';
import { labelsChangeSchema, labelsSchema } from './labels.ts';

export const snapshotSchema = z.strictObject({
  label: z.string(),
  labels: z.record(z.string(), z.string()),
  created_at: z.string(),
  size_bytes: z.int().describe('of its own file; a download may be larger where it is not whole'),
  memory_bytes: z
    .int()
    .nullable()
    .describe(
      'of the memory and the disk that were saved with it, which are on this machine alone; null: none were',
    ),
  location: z.enum(['local', 'remote']).describe('`remote`: only the bucket has it; a restore brings it'),
  whole: z.boolean().describe('false: its file holds what was written since the snapshot it was taken on'),
  base: z
    .string()
    .nullable()
    .describe('that snapshot; null where it is whole, or where that one was removed'),
  active: z.boolean().describe('the sandbox was restored from it last'),
});
export type SnapshotDetails = z.infer<typeof snapshotSchema>;

export const snapshotTakenSchema = snapshotSchema.extend({
  pause_ms: z.number().describe('how long the sandbox stood still while its files were read'),
});
export type SnapshotTaken = z.infer<typeof snapshotTakenSchema>;

export const snapshotPageSchema = z.strictObject({
  items: z.array(snapshotSchema),
  next: z.string().nullable().describe('`cursor` of the next page; null: there is none'),
});
export type SnapshotPage = z.infer<typeof snapshotPageSchema>;

export const snapshotCreateSchema = z.strictObject({
  label: snapshotLabelSchema.optional().describe('its name; none: YYYYMMDD-HHMMSS, UTC'),
  labels: labelsSchema.default({}),
  memory: z
    .boolean()
    .optional()
    .describe(
      'of a microVM in QEMU that runs: with its processes, so that `sandbox.create` with `memory` makes sandboxes that go on with them',
    ),
});

/** What a PATCH changes. What is left out stays as it is. */
export const snapshotChangeSchema = z.strictObject({
  label: snapshotLabelSchema.optional().describe('its new name'),
  labels: labelsChangeSchema.optional(),
});
export type SnapshotPatch = z.infer<typeof snapshotChangeSchema>;

export const snapshotRestoreSchema = z.strictObject({
  snapshot: snapshotLabelSchema,
  memory: z
    .boolean()
    .optional()
    .describe('of one that was taken with `memory`: the processes of then go on, on the disk of then'),
});

/** What a snapshot is compared with. A snapshot of the name `base` or `current` can't be said here. */
export const diffAgainstSchema = z
  .union([z.enum(['base', 'current']), snapshotLabelSchema])
  .default('base')
  .describe(
    '`base`: the modules that it lies on; `current`: the sandbox as it is now, whose changes since are told; or another snapshot, whose changes up to this one are told',
  );

export const differenceSchema = z.strictObject({
  change: z
    .enum(['added', 'changed', 'removed'])
    .describe('`removed` tells of a directory without what was in it'),
  path: z.string().describe('bytes that are no UTF-8 are U+FFFD'),
  type: z.enum(['file', 'directory', 'symlink', 'fifo', 'socket', 'device']),
  mode: z.string().describe('permission bits, octal'),
  size_bytes: z.int().describe('0 of a directory'),
});
export type Difference = z.infer<typeof differenceSchema>;

export const diffPageSchema = z.strictObject({
  from: z.string().describe('the older side: a snapshot, or `base`'),
  to: z.string().describe('the newer side: a snapshot, or `current`'),
  items: z
    .array(differenceSchema)
    .describe('by path; of what was removed as it was, else as it is. May be few while there is a next page'),
  next: z.string().nullable().describe('`cursor` of the next page; null: that is all'),
});
export type DiffPage = z.infer<typeof diffPageSchema>;
