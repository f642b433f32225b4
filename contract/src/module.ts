/** What a module is on the wire. */
import { z } from 'zod';

export const moduleInfoSchema = z.strictObject({
  name: z.string().describe('without `.squashfs`'),
  size: z.int().describe('bytes of the squashfs file'),
  location: z.enum(['local', 'remote']),
});
export type ModuleAnswer = z.infer<typeof moduleInfoSchema>;
