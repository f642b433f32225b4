/**
 * What a sandbox is on the wire: the create request and `SandboxInfo`, seed dialect with HEAD's fields added.
 *
 * `/cgi-bin` tolerates unknown keys with a warning (old clients send fields of parts that do not exist yet);
 * the parsed request is exact.
 */
import { z } from 'zod';

export const snapshotInfoSchema = z.strictObject({
  label: z.string(),
  created: z.string().describe('RFC 3339, UTC'),
  size: z.int().describe('bytes of the squashfs file'),
});

export const warningSchema = z.strictObject({ code: z.string(), message: z.string() });
export type Warning = z.infer<typeof warningSchema>;

export const sandboxInfoSchema = z.strictObject({
  id: z.string(),
  owner: z.string(),
  task: z.string(),
  layers: z.array(z.string()).describe('module names, in the order they were asked for'),
  created: z.string().describe('RFC 3339, UTC'),
  last_active: z.string(),
  mounted: z.boolean().describe('true when PID 1 runs: the sandbox takes commands'),
  exec_count: z.int(),
  upper_bytes: z.int().describe('bytes the writable layer holds, at most some seconds old'),
  snapshots: z.array(snapshotInfoSchema),
  active_snapshot: z.string().nullable(),
  cpu: z.number(),
  memory_mb: z.int(),
  max_lifetime_s: z.int(),
  allow_net: z.array(z.string()).nullable(),
  state: z.enum(['creating', 'ready', 'restarting', 'failed', 'destroying']),
  backend: z.literal('chroot'),
  warnings: z
    .array(warningSchema)
    .describe('limits the host can not enforce, fields whose part does not exist yet'),
});
export type SandboxInfo = z.infer<typeof sandboxInfoSchema>;

/** A create request after the edge has parsed it: every value checked and defaulted. */
export interface CreateRequest {
  readonly id: import('./ids.ts').SandboxId;
  readonly owner: string;
  readonly task: string;
  readonly layers: readonly import('./ids.ts').ModuleName[];
  readonly cpu: number;
  readonly memoryMb: number;
  readonly maxLifetimeS: number;
  readonly allowNet: readonly string[] | undefined;
  /** Warnings the edge already knows (unknown or not yet supported fields). */
  readonly warnings: readonly Warning[];
}
