/**
 * What happened to sandboxes, as `GET /v1/events` and webhooks tell it.
 *
 * An event is written with the change that it tells of, so both are there or neither. What a sandbox's programs do
 * (commands, files, connections) is no event: each of these has a log of its own.
 */
import { z } from 'zod';
import { type EventType, eventTypes } from './event-types.ts';
import { limits } from './limits.ts';

export const eventSchema = z.strictObject({
  id: z.int().describe('grows and is never used again'),
  at: z.string().describe('RFC 3339 with milliseconds, UTC'),
  type: z.enum(eventTypes),
  sandbox: z
    .string()
    .describe('its id, which may be another sandbox’s by now; empty: what it tells of has none any more'),
  owner: z.string(),
  data: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()]))
    .describe('what there is to say beside that, by type'),
});
/** `data` is never a sandbox's own text beyond a label and a host's name, in DNS's letters: who receives it need not fear for his terminal. */
export type Event = z.infer<typeof eventSchema>;
export type EventData = Readonly<Event['data']>;

/** Of a stream: what was to be followed is not kept any more. */
export const eventGapSchema = z.strictObject({
  removed_before: z.int().describe('events with smaller ids were removed'),
});

/** `type=sandbox.created,sandbox.destroyed` of a query. */
export const eventTypesQuerySchema = z
  .string()
  .max(limits.eventTypesCharsMax)
  .transform((text, context) => {
    const parsed = z.array(z.enum(eventTypes)).safeParse(text.split(','));
    if (parsed.success) return parsed.data;
    context.addIssue({ code: 'custom', message: `type must be some of ${eventTypes.join(', ')}` });
    return z.NEVER;
  });

/** Null: all of them. */
export interface EventFilter {
  readonly types: readonly EventType[] | null;
  readonly sandbox: string | null;
  readonly owner: string | null;
}
