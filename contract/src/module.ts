/** What a module is on the wire. */
import { z } from 'zod';

export const moduleInfoSchema = z.strictObject({
  name: z.string().describe('without `.squashfs`'),
  size: z.int().describe('bytes of the squashfs file'),
  location: z.enum(['local', 'remote']),
});
/** The list as the original's last version has it. */
export const moduleNamesSchema = z.strictObject({ modules: z.array(z.string()) });
export type ModuleAnswer = z.infer<typeof moduleInfoSchema>;
