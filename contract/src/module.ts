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

export const moduleActivateSchema = z.strictObject({ module: moduleNameSchema });

/** The list as the original's last version has it. */
export const moduleNamesSchema = z.strictObject({ modules: z.array(z.string()) });
export type ModuleAnswer = z.infer<typeof moduleInfoSchema>;
