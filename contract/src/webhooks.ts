/**
 * Webhooks: events sent to an address of the operator's, signed as Standard Webhooks has it.
 *
 * The body is the event as `GET /v1/events` shows it. Headers: `webhook-id` (the same for every try of an event),
 * `webhook-timestamp` (seconds, of the try) and `webhook-signature`: `v1,` and the base64 of HMAC-SHA256 over
 * `<id>.<timestamp>.<body>`, whose key is what the secret has behind `whsec_`, decoded.
 */
import { z } from 'zod';
import { eventTypes } from './event-types.ts';
import { limits } from './limits.ts';

export const webhookIdSchema = z
  .string()
  .regex(/^wh_[a-z0-9]{20}$/)
  .brand<'WebhookId'>();
export type WebhookId = z.infer<typeof webhookIdSchema>;

const urlSchema = z
  .string()
  .max(limits.webhookUrlCharsMax)
  .refine(isUrl, { error: 'url must be one of http or https, without user, password and fragment' })
  .describe('http or https; private and reserved addresses only as SQUASH_WEBHOOK_RANGES says');

function isUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return false;
  return url.username === '' && url.password === '' && !text.includes('#');
}

const typesSchema = z
  .array(z.enum(eventTypes))
  .max(eventTypes.length)
  .describe('types of events; none: all of them');

/** 24 to 64 bytes, as the specification of Standard Webhooks wants it. */
const secretPattern = /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/;

export const webhookCreateSchema = z.strictObject({
  url: urlSchema,
  types: typesSchema.default([]),
  owner: z.string().max(limits.ownerBytesMax).optional().describe('only events of this owner; none: of all'),
  secret: z
    .string()
    .regex(secretPattern, { error: 'secret must be "whsec_" and base64 of 24 to 64 bytes' })
    .optional()
    .describe('none: one is made'),
});

export const webhookChangeSchema = z.strictObject({
  url: urlSchema.optional(),
  types: typesSchema.optional(),
  enabled: z.boolean().optional().describe('what happens while it is not enabled is not sent later'),
});

const timeSchema = z.string().nullable();

export const webhookSchema = z.strictObject({
  id: webhookIdSchema,
  url: z.string(),
  types: z.array(z.enum(eventTypes)),
  owner: z.string().nullable(),
  enabled: z.boolean(),
  created_at: z.string(),
  pending: z.int().describe('events that are to be delivered'),
  last_success_at: timeSchema,
  last_failure_at: timeSchema,
  last_error: z.string().nullable().describe('of the last try; null: it was taken'),
  next_attempt_at: timeSchema.describe('null: nothing failed, or nothing is tried any more'),
  given_up: z.int().describe('events that were never taken, and are not tried any more'),
  missed_before: z
    .int()
    .nullable()
    .describe('events with smaller ids may have been removed before they could be delivered'),
});
export type Webhook = z.infer<typeof webhookSchema>;

export const webhookMadeSchema = webhookSchema.extend({
  secret: z.string().describe('signs what is sent; it is told here and never again'),
});

export const webhookTestSchema = z.strictObject({
  delivered: z.boolean(),
  status: z.int().nullable().describe('of the answer; null: there was none'),
  error: z.string().nullable(),
  duration_ms: z.number(),
});
export type WebhookTest = z.infer<typeof webhookTestSchema>;
