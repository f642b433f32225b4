/**
 * One thing this host offers or does not, as `squash doctor` prints it and `GET /v1/info` answers it.
 *
 * A row tells its whole story: what was found, what Squash does with it, what is weaker for it, and what would
 * mend it. The list is complete, so that a reader also sees what is well.
 */
import { z } from 'zod';

export const capabilitySchema = z.strictObject({
  name: z.string().describe('stable identifier, such as `user_namespaces` or `cgroup_memory`'),
  state: z
    .enum(['ok', 'weaker', 'missing'])
    .describe('`weaker`: Squash works with something lesser; `missing`: it works without, or not at all'),
  required: z.boolean().describe('without it no sandbox starts'),
  found: z.string().describe('what the host offers, in words'),
  choice: z.string().describe('what Squash does with it'),
  weaker: z.string().nullable().describe('what is lost by it; null where nothing is'),
  remedy: z.string().nullable().describe('the command that mends it; null where nothing can or need be done'),
});
export type Capability = z.infer<typeof capabilitySchema>;
