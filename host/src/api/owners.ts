/** `owner.*`: who has what, and how much each may have. */
import type { ownerOperations } from '@squash/contract/operations/owners';
import type { Engine } from '../engine/engine.ts';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { pageOf } from './page.ts';

export function ownerHandlers({ owners }: Engine): HandlersOf<typeof ownerOperations> {
  return {
    'owner.list': ({ query }) => json(pageOf(owners.list(), ({ owner }) => owner, query)),
    'owner.quota': ({ params }) => json(owners.get(params.owner)),
    'owner.set_quota': ({ params, body }) => json(owners.setQuota(params.owner, body)),
  };
}
