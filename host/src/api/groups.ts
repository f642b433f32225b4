/** `tier.*`, `group.*` and `chat.*`: agents of different trust, and what is said to and by them. */
import { groupLimits } from '@squash/contract/group-limits';
import type { OutMessage } from '@squash/contract/groups';
import type { groupOperations } from '@squash/contract/operations/groups';
import type { Groups } from '@squash/groups/groups';
import { auditCaller } from '../http/audit.ts';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { resumePoint } from './resume-point.ts';

export type { Groups } from '@squash/groups/groups';

export function groupHandlers(groups: Groups): HandlersOf<typeof groupOperations> {
  const all = (items: readonly unknown[]) => json({ items, next: null });
  const { pageItemsDefault } = groupLimits;
  return {
    'tier.list': () => all(groups.tiers()),
    'tier.set': ({ params, body }) => json(groups.setTier(params.tier, body)),
    'tier.remove': ({ params }) => {
      groups.removeTier(params.tier);
      return empty;
    },
    'group.create': ({ body }) => json(groups.createGroup(body)),
    'group.list': () => all(groups.groups()),
    'group.get': ({ params }) => json(groups.group(params.group)),
    'group.update': ({ params, body }) => json(groups.updateGroup(params.group, body)),
    'group.remove': async ({ params, caller }) => {
      await groups.removeGroup(params.group, auditCaller(caller));
      return empty;
    },
    'group.runs': ({ params, query: { limit = pageItemsDefault } }) => all(groups.runs(params.group, limit)),
    'group.actions': ({ query: { limit = pageItemsDefault, ...filter } }) =>
      all(groups.actions(filter, limit)),
    'group.decide': ({ params, body, caller }) =>
      json(groups.decide(params.number, { ...body, by: auditCaller(caller) })),
    'chat.create': ({ body }) => json(groups.createChat(body)),
    'chat.list': () => all(groups.chats()),
    'chat.update': ({ params, body }) => json(groups.updateChat(params.chat, body)),
    'chat.remove': async ({ params }) => {
      await groups.removeChat(params.chat);
      return empty;
    },
    'chat.reset': async ({ params }) => {
      await groups.resetChat(params.chat);
      return empty;
    },
    'chat.message': ({ params, body }) => json(groups.message(params.chat, body)),
    'chat.read': ({ params, query: { after, follow, limit = pageItemsDefault }, header, signal }) => {
      if (follow !== 'true') return all(groups.said(params.chat, after ?? 0, limit));
      const behind = resumePoint(header('last-event-id')) ?? after ?? groups.lastSaid(params.chat);
      return {
        type: 'stream',
        contentType: 'text/event-stream',
        pieces: pieces(groups.follow(params.chat, behind, signal), behind),
        keepAlive: ': keep-alive\n\n',
      };
    },
  };
}

/** JSON has no line breaks, so one `data` line holds it. The first is where a client resumes that has heard nothing yet. */
async function* pieces(said: AsyncIterable<OutMessage>, after: number): AsyncGenerator<string, void, void> {
  yield `id: ${after}\nevent: position\ndata: ${JSON.stringify({ after })}\n\n`;
  for await (const one of said) yield `id: ${one.message}\nevent: said\ndata: ${JSON.stringify(one)}\n\n`;
}
