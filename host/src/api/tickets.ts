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
import { Routes } from '../http/routes.ts';
import type { Tickets } from '../http/tickets.ts';

export function ticketHandlers(tickets: Tickets): HandlersOf<typeof ticketOperations> {
  const routes = new Routes<Operation>();
  for (const operation of Object.values(operations) as Operation[])
    if (takesTicket(operation)) routes.add(operation.path, operation);
  return {
    'ticket.create': ({ body: { path }, caller }) => {
      if (routes.find(path).next().done === true) {
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
