/** Tickets: how a web page opens a WebSocket or an event stream, where it can send no header. */
import { z } from 'zod';
import { limits } from '../limits.ts';
import { boundedText } from '../tolerant.ts';
import { defineOperation, type Operations } from './operation.ts';

export const ticketBodySchema = z.strictObject({
  path: boundedText('path', limits.ticketPathBytesMax).describe(
    'of the WebSocket or the stream of events that it is for, without a query',
  ),
});

export const ticketSchema = z.strictObject({
  ticket: z.string().describe('to be sent as `?ticket=`'),
  path: z.string(),
  expires_at: z.string().describe('RFC 3339 with milliseconds, UTC'),
});

const ticketCreate = defineOperation({
  id: 'ticket.create',
  method: 'POST',
  path: '/v1/tickets',
  dialect: 'native',
  summary: 'A ticket for one WebSocket or stream of events, where no header can be sent',
  description:
    'Valid once, within 30 s, for a GET of this path, with what the caller of this operation may do. Sent as `?ticket=` beside the other ' +
    'parameters of the query.',
  body: ticketBodySchema,
  answers: [{ status: 201, description: 'The ticket', schema: ticketSchema }],
  errors: ['stream_limit'],
  permission: 'read',
});

export const ticketOperations = { 'ticket.create': ticketCreate } as const satisfies Operations;
