/** `approval.*`: what waits for a person, and what is approved for all. */
import { AppError } from '@squash/contract/errors';
import type { approvalOperations } from '@squash/contract/operations/approvals';
import { includesScope } from '@squash/contract/scope';
import type { Engine } from '../engine/engine.ts';
import { type Caller, sees } from '../http/caller.ts';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';

export function approvalHandlers({ approvals }: Engine): HandlersOf<typeof approvalOperations> {
  const seenBy = (caller: Caller) => (owner: string) => sees(caller, owner);
  return {
    'approval.list': ({ query, caller }) => json(approvals.page({ ...query, owner: caller.owner })),
    'approval.get': ({ params, caller }) => json(approvals.get(params.approval, seenBy(caller))),
    'approval.decide': async ({ params, body, caller }) => {
      if (body.scope === 'always' && !includesScope(caller.scope, 'admin')) {
        throw new AppError(
          'forbidden',
          'The scope "always" is for every sandbox and takes a key of scope "admin"',
        );
      }
      const by = caller.key ?? 'operator';
      return json(await approvals.decide(params.approval, { ...body, by, sees: seenBy(caller) }));
    },
    'approval.standing_list': () => json([...approvals.standing()]),
    'approval.standing_remove': async ({ params }) => {
      await approvals.removeStanding(params.standing);
      return empty;
    },
  };
}
