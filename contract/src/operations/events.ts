/** The operation that tells what happened to sandboxes. */
import { z } from 'zod';
import { eventTypes } from '../event-types.ts';
import { eventGapSchema, eventSchema, eventTypesQuerySchema } from '../events.ts';
import { sandboxIdSchema } from '../ids.ts';
import { limits } from '../limits.ts';
import { defineOperation, type Operations } from './operation.ts';
import { queryInteger } from './query.ts';

const position = (name: string) => queryInteger(name, { min: 0, max: Number.MAX_SAFE_INTEGER });

const eventList = defineOperation({
  id: 'event.list',
  method: 'GET',
  path: '/v1/events',
  dialect: 'native',
  summary: 'What happened to sandboxes, oldest first; also to those that are gone',
  description:
    'Without `after` the newest. With `follow=true` server-sent events named by their type, whose `id` is the event’s: ' +
    '`Last-Event-ID` or `after` resumes behind one, without either it begins with what happens next. An event `gap` says ' +
    'that events behind the resume point are not kept any more.',
  query: z.strictObject({
    sandbox: sandboxIdSchema.optional(),
    type: eventTypesQuerySchema.optional().describe('comma list of types'),
    owner: z
      .string()
      .max(limits.ownerBytesMax)
      .optional()
      .describe('a key of an owner sees no other owner’s'),
    after: position('after').describe('only events with a larger `id`; 0: from the oldest that is kept'),
    cursor: position('cursor').describe('`next` of the page before; the same as `after`'),
    limit: queryInteger('limit', { min: 1, max: limits.eventsPageMax }).describe(
      'at most so many, default 100',
    ),
    follow: z
      .enum(['true', 'false'], { error: 'follow must be true or false' })
      .optional()
      .describe('`true`: server-sent events, each as it happens'),
  }),
  answers: [
    {
      status: 200,
      description: 'Events',
      schema: z.strictObject({
        items: z.array(eventSchema),
        next: z.string().nullable().describe('`cursor` of the next page; null: this is the last one'),
        removed_before: z
          .int()
          .describe('events with smaller ids were removed to stay in bounds; 0: none were'),
      }),
    },
  ],
  events: {
    ...Object.fromEntries(eventTypes.map((type) => [type, eventSchema])),
    gap: eventGapSchema,
  },
  errors: ['stream_limit'],
  permission: 'read',
});

export const eventOperations = { 'event.list': eventList } as const satisfies Operations;
