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
});

/** What a PATCH changes. What is left out stays as it is. */
export const snapshotChangeSchema = z.strictObject({
  label: snapshotLabelSchema.optional().describe('its new name'),
  labels: labelsChangeSchema.optional(),
});
export type SnapshotPatch = z.infer<typeof snapshotChangeSchema>;

export const snapshotRestoreSchema = z.strictObject({ snapshot: snapshotLabelSchema });
