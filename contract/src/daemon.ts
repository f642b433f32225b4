/** What the daemon tells about itself on the wire. */
import { z } from 'zod';
import { backendSchema } from './backend.ts';
import { capabilitySchema } from './capability.ts';

/** What does not work as it should for all sandboxes, now. */
export const problemSchema = z.strictObject({
  code: z.enum([
    'disk_low',
    'memory_low',
    'upper_errors',
    'launcher_unavailable',
    'launcher_outdated',
    'helper_unavailable',
    'egress_unavailable',
    'policy_pending',
    'upstream_beside_daemon',
    'removal_pending',
    'save_pending',
    'audit_failing',
    'bucket_unavailable',
    'bucket_conflict',
  ]),
  message: z.string().describe('what it means, and what would mend it'),
});
export type Problem = z.infer<typeof problemSchema>;

/** In the run directory: what ephemeral mode could not save when the last daemon ended. */
export const unsavedFile = 'unsaved.json';

export interface Unsaved {
  readonly id: string;
  readonly code: string;
  readonly why: string;
}

export interface UnsavedFile {
  /** Of the daemon that ended. */
  readonly pid: number;
  readonly sandboxes: readonly Unsaved[];
}

export const healthSchema = z.strictObject({
  status: z.literal('ok'),
  backend: backendSchema.describe('what a new sandbox gets that asks for none'),
  tailscale: z.strictObject({ status: z.literal('off'), ip: z.literal('') }),
  sandboxes: z.int(),
  modules: z.int(),
  base_ready: z.boolean().describe('true when there is a module whose name begins with 000-'),
  problems: z.array(problemSchema).optional().describe('left out when all is well'),
});

/** What of the host is promised to sandboxes, all that exist together. */
const promisedSchema = {
  promised: z.number().describe('the sum of what each sandbox may take'),
  promised_max: z
    .number()
    .nullable()
    .describe('a create beyond it is refused; null: promises are not counted'),
};
const bytesSchema = z.strictObject({
  total: z.int().describe('bytes'),
  available: z.int().describe('bytes to be had now'),
  kept: z.int().describe('below so many available bytes a create is refused'),
  ...promisedSchema,
});
export const roomSchema = z.strictObject({
  memory: bytesSchema,
  cpu: z.strictObject({ total: z.int().describe('processors'), ...promisedSchema }),
  disk: bytesSchema,
});
export type Room = z.infer<typeof roomSchema>;

export const infoSchema = z.strictObject({
  version: z.string(),
  api: z.literal(1),
  pid: z.int(),
  started: z.string().describe('RFC 3339, UTC'),
  node: z.string(),
  backend: backendSchema.describe('what a new sandbox gets that asks for none'),
  data_dir: z.string(),
  socket: z.string().describe('path of the Unix socket'),
  listen: z.strictObject({ host: z.string(), port: z.int() }).nullable().describe('null: Unix socket only'),
  ssh: z
    .strictObject({
      host: z.string(),
      port: z.int(),
      fingerprint: z.string().describe('of its host key, as `ssh` shows it'),
    })
    .nullable()
    .describe('the SSH gateway; null: there is none'),
  auth: z.boolean().describe('true when TCP asks for a token'),
  host: z.array(capabilitySchema).describe('what was found out about this host when the daemon started'),
  problems: z.array(problemSchema).describe('what does not work as it should, now'),
  room: roomSchema.describe('what the host has for sandboxes, now'),
  config: z.array(
    z.strictObject({
      name: z.string(),
      value: z.string().describe('a secret is [redacted]'),
      source: z.enum(['environment', '.env', 'default']),
      meaning: z.string(),
    }),
  ),
});
export type DaemonInfo = z.infer<typeof infoSchema>;
