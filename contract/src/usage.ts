/**
 * What a sandbox uses, now and in the last minutes. Null: not known here, which is not the same as nothing; a host without
 * control groups can't say what commands use, and a sandbox that does not run uses none.
 */
import { z } from 'zod';

const count = (what: string) => z.int().nullable().describe(what);

const measuredShape = {
  at: z.string().describe('RFC 3339 with milliseconds, UTC'),
  cpu_us: count('processor time since the sandbox was started last, in microseconds'),
  cpu_percent: z
    .number()
    .nullable()
    .describe('of one processor, since the measurement before; null in the first one'),
  memory_bytes: count('as the limit counts it, with the cache of its files'),
  pids: count('processes and threads'),
  disk_bytes: count('of its writable layer, as measured last'),
  disk_inodes: count('files in it'),
  network_in_bytes: count('of connections that have ended, since the egress process began'),
  network_out_bytes: count('the same towards the world'),
  connections: count('that were begun, since the egress process began'),
  connections_open: count('that are open'),
};

export const usageSampleSchema = z.strictObject(measuredShape);
export type UsageSample = z.infer<typeof usageSampleSchema>;

export const sandboxUsageSchema = z.strictObject({
  ...measuredShape,
  cpu_limit: z.number().describe('processors it may use'),
  memory_limit_bytes: z.int(),
  pids_limit: z.int(),
  disk_limit_bytes: z.int(),
  disk_limit_inodes: z.int(),
  history: z
    .array(usageSampleSchema)
    .describe('of the last ten minutes, oldest first; every five seconds while it is used or asked for'),
});
export type SandboxUsage = z.infer<typeof sandboxUsageSchema>;
