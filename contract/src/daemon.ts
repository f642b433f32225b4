/** What the daemon tells about itself on the wire. */
import { z } from 'zod';
import { capabilitySchema } from './capability.ts';

export const healthSchema = z.strictObject({
  status: z.literal('ok'),
  backend: z.literal('chroot'),
  tailscale: z.strictObject({ status: z.literal('off'), ip: z.null() }),
  sandboxes: z.int(),
  modules: z.int(),
  base_ready: z.boolean().describe('true when there is a module whose name begins with 000-'),
});

export const infoSchema = z.strictObject({
  version: z.string(),
  api: z.literal(1),
  pid: z.int(),
  started: z.string().describe('RFC 3339, UTC'),
  node: z.string(),
  backend: z.literal('chroot'),
  data_dir: z.string(),
  socket: z.string().describe('path of the Unix socket'),
  listen: z.strictObject({ host: z.string(), port: z.int() }).nullable().describe('null: Unix socket only'),
  auth: z.boolean().describe('true when TCP asks for a token'),
  host: z.array(capabilitySchema).describe('what was found out about this host when the daemon started'),
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
