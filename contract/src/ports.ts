/** Ports of sandboxes: who may see one, what listens, and what is said over a forwarded connection. */
import { z } from 'zod';
import { limits } from './limits.ts';

/** `public`: whoever reaches the daemon. `token`: who has a credential of the daemon, or a signed link. */
export const portAccessSchema = z.enum(['public', 'token']);
export type PortAccess = z.infer<typeof portAccessSchema>;

export const portNumberSchema = z
  .string()
  .regex(/^[1-9]\d{0,4}$/, { error: 'port must be from 1 to 65535', abort: true })
  .transform(Number)
  .refine((port) => port <= 65_535, { error: 'port must be from 1 to 65535' });

const urlSchema = z
  .string()
  .nullable()
  .describe('where browsers find it; `null` where the daemon listens on its Unix socket alone');

export const portInfoSchema = z.strictObject({
  port: z.int(),
  addresses: z.array(z.string()).describe('that it listens on'),
  process: z
    .strictObject({ pid: z.int(), name: z.string() })
    .nullable()
    .describe('who listens, as the sandbox tells it; `null` where that is another user than root'),
  access: portAccessSchema,
  url: urlSchema,
});
export type PortInfo = z.infer<typeof portInfoSchema>;

export const portListSchema = z.strictObject({
  items: z.array(portInfoSchema),
  next: z.string().nullable().describe('always `null`: a sandbox has no more than one answer holds'),
});
export type PortList = z.infer<typeof portListSchema>;

export const portSetBodySchema = z.strictObject({ access: portAccessSchema });

export const portSchema = z.strictObject({ port: z.int(), access: portAccessSchema, url: urlSchema });
export type Port = z.infer<typeof portSchema>;

export const portLinkBodySchema = z.strictObject({
  expires_s: z
    .int({ error: 'expires_s must be a whole number' })
    .min(1, { error: 'expires_s must be at least 1' })
    .max(limits.previewLinkSMax, { error: `expires_s must be at most ${limits.previewLinkSMax}` })
    .default(limits.previewLinkSDefault)
    .describe('seconds until it ends'),
});

export const portLinkSchema = z.strictObject({
  url: urlSchema,
  token: z.string().describe('for programs: the header `Squash-Preview-Token`'),
  expires_at: z.string(),
});
export type PortLink = z.infer<typeof portLinkSchema>;

/** A text message of `squash.tcp.v1`, in both directions; `error` comes from the daemon alone, and is its last. */
export const tcpMessageSchema = z.discriminatedUnion('type', [
  /** Nothing more comes from this side. */
  z.strictObject({ type: z.literal('eof') }),
  z.strictObject({ type: z.literal('error'), code: z.string(), message: z.string() }),
]);
export type TcpMessage = z.infer<typeof tcpMessageSchema>;
