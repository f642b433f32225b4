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

export const modulePageSchema = z.strictObject({
  items: z.array(moduleSchema),
  next: z.string().nullable().describe('`cursor` of the next page; null: there is none'),
});
export type ModulePage = z.infer<typeof modulePageSchema>;

export const moduleActivateSchema = z.strictObject({ module: moduleNameSchema });

/** The list as the original's last version has it. */
export const moduleNamesSchema = z.strictObject({ modules: z.array(z.string()) });
export type ModuleAnswer = z.infer<typeof moduleInfoSchema>;
