/** `ticket.create`: for the addresses that a page opens without headers. */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { Operation } from '@squash/contract/operations/operation';
import { operations } from '@squash/contract/operations/table';
import type { ticketOperations } from '@squash/contract/operations/tickets';
import { rfc3339, systemClock } from '@squash/base/clock';
import { takesTicket } from '../http/parse.ts';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { pathOf } from '../http/sockets.ts';
import type { Tickets } from '../http/tickets.ts';

export function ticketHandlers(tickets: Tickets): HandlersOf<typeof ticketOperations> {
  const paths = (Object.values(operations) as Operation[]).filter(takesTicket).map(pathOf);
  return {
    'ticket.create': ({ body: { path }, caller }) => {
      if (!paths.some((pattern) => pattern.test(path))) {
        throw new AppError(
          'invalid_request',
          'path must be that of a WebSocket or a stream of events, without a query',
        );
      }
      const ticket = tickets.issue(caller, path);
      return json({ ticket, path, expires_at: rfc3339(systemClock.wallMs() + limits.ticketMs) });
    },
  };
}
