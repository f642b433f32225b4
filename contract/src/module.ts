/** What a module is on the wire. */
import { z } from 'zod';
import { moduleNameSchema } from './ids.ts';

export const moduleInfoSchema = z.strictObject({
  name: z.string().describe('without `.squashfs`'),
  size: z.int().describe('bytes of the squashfs file'),
  location: z.enum(['local', 'remote']),
});
/** As `/v1` tells of it. */
export const moduleSchema = z.strictObject({
  name: z.string().describe('without `.squashfs`'),
  size_bytes: z.int().describe('of the squashfs file'),
  location: z.enum(['local', 'remote']),
});
export type Module = z.infer<typeof moduleSchema>;

/** One module with what its manifest says, and what is seen in it. */
export const moduleDetailsSchema = moduleSchema.extend({
  sha256: z.string().describe('of the squashfs file: what the module is, whatever it is called'),
  built_at: z.string().nullable().describe('RFC 3339, UTC; null: it has no manifest'),
  builder: z.string().nullable().describe('what built it'),
  base: z.string().nullable().describe('`name@sha256:digest` of the module it is a difference to'),
  packages: z.array(z.string()).describe('`name=version`, what it adds to its base'),
  provenance: z.record(z.string(), z.string()).describe('where it comes from, in words of who built it'),
  architecture: z
    .string()
    .nullable()
    .describe('of its programs: `x86_64` or `aarch64`; null: it has none, or has not been unpacked yet'),
  libc: z
    .enum(['glibc', 'musl'])
    .nullable()
    .describe('the C library that its programs are linked to; null: none, or not unpacked yet'),
});
export type ModuleDetails = z.infer<typeof moduleDetailsSchema>;

export const modulePageSchema = z.strictObject({
  items: z.array(moduleSchema),
  next: z.string().nullable().describe('`cursor` of the next page; null: there is none'),
});
export type ModulePage = z.infer<typeof modulePageSchema>;

/** What has been unpacked and can be unpacked again. */
export const gcBodySchema = z.strictObject({
  dry_run: z.boolean().optional().describe('`true`: tells what would go, and removes nothing'),
});

export const gcAnswerSchema = z.strictObject({
  dry_run: z.boolean(),
  trees: z.int().describe('unpacked layers that are there, those that go included'),
  trees_in_use: z.int().describe('of them, those that a sandbox stands on'),
  trees_removed: z.int().describe('or would be, with `dry_run`'),
  bytes_freed: z.int().describe('on the disk'),
});
export type GcAnswer = z.infer<typeof gcAnswerSchema>;

/** The same in the words of the original's last version. */
export const seedGcBodySchema = gcBodySchema.extend({
  include_s3: z
    .literal(false, { error: 'include_s3 is not offered: objects in a bucket are nobody’s to remove' })
    .optional(),
  assume_single_host: z.boolean().optional().describe('says nothing here: it was about a bucket'),
});

export const seedGcAnswerSchema = z.strictObject({
  stored_objects: z.int(),
  live_objects: z.int(),
  swept_objects: z.int(),
  bytes_freed: z.int(),
  dry_run: z.boolean(),
});

export const moduleActivateSchema = z.strictObject({ module: moduleNameSchema });

/** The list as the original's last version has it. */
export const moduleNamesSchema = z.strictObject({ modules: z.array(z.string()) });
export type ModuleAnswer = z.infer<typeof moduleInfoSchema>;
