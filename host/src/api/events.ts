/**
 * `event.list`: what happened to sandboxes, as pages or as server-sent events that can be resumed. Who has an owner sees that
 * owner's events, also those of sandboxes that are gone: the event has the owner it had then.
 */
import { AppError } from '@squash/contract/errors';
import type { EventFilter } from '@squash/contract/events';
import type { eventOperations } from '@squash/contract/operations/events';
import type { Engine } from '../engine/engine.ts';
import type { Followed } from '../engine/events.ts';
import { type Caller, sees } from '../http/caller.ts';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { resumePoint } from './resume-point.ts';

const pageDefault = 100;

export function eventHandlers({ events }: Engine): HandlersOf<typeof eventOperations> {
  return {
    'event.list': ({ query, caller, header, signal }) => {
      const { sandbox, type, owner, cursor, limit = pageDefault } = query;
      const filter = { sandbox: sandbox ?? null, types: type ?? null, owner: seenOwner(caller, owner) };
      const asked = query.after ?? cursor ?? null;
      if (query.follow === 'true') {
        const after = resumePoint(header('last-event-id')) ?? asked;
        return {
          type: 'stream',
          contentType: 'text/event-stream',
          pieces: pieces(events.follow(filter, after, signal)),
          keepAlive: ': keep-alive\n\n',
        };
      }
      const found = events.page({ ...filter, after: asked, limit });
      const last = found.events.at(-1);
      const next =
        asked !== null && last !== undefined && found.events.length === limit ? `${last.id}` : null;
      return json({ items: found.events, next, removed_before: found.removedBefore });
    },
  };
}

/** @throws forbidden where he asks for another owner's */
function seenOwner(caller: Caller, wanted: string | undefined): EventFilter['owner'] {
  if (wanted === undefined) return caller.owner;
  if (sees(caller, wanted)) return wanted;
  throw new AppError('forbidden', `the key is of owner "${caller.owner}", and sees no other owner's events`);
}

async function* pieces(followed: AsyncIterable<Followed>): AsyncGenerator<string, void, void> {
  for await (const one of followed) yield piece(one);
}

/** JSON has no line breaks, so one `data` line holds it. An `id` alone moves only the place that a client resumes at. */
function piece(one: Followed): string {
  switch (one.type) {
    case 'event':
      return `id: ${one.event.id}\nevent: ${one.event.type}\ndata: ${JSON.stringify(one.event)}\n\n`;
    case 'gap':
      return `event: gap\ndata: ${JSON.stringify({ removed_before: one.removedBefore })}\n\n`;
    case 'position':
      return `id: ${one.id}\n\n`;
  }
}
