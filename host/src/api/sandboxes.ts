/** `sandbox.*`: create, find, change, put to rest, destroy. */
import { AppError } from '@squash/contract/errors';
import type { sandboxOperations } from '@squash/contract/operations/sandboxes';
import { includesScope } from '@squash/contract/scope';
import type { Engine } from '../engine/engine.ts';
import { sees } from '../http/caller.ts';
import { empty, json } from '../http/reply.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { createSandbox } from './create-sandbox.ts';
import { onceOf } from './idempotency-key.ts';
import type { EgressRules } from './network.ts';
import { running } from './run.ts';

export function sandboxHandlers(
  engine: Engine,
  rules: Pick<EgressRules, 'upstreams'>,
): HandlersOf<typeof sandboxOperations> {
  const { sandboxes } = engine;
  return {
    'sandbox.create': creating(engine, rules),
    'sandbox.list': ({ query, caller }) =>
      json(sandboxes.page({ ...query, sees: (owner) => sees(caller, owner) })),
    'sandbox.run': running(engine, rules),
    'sandbox.get': ({ params }) => json(sandboxes.describe(params.id)),
    'sandbox.update': async ({ params, body }) => json(await sandboxes.update(params.id, body)),
    'sandbox.destroy': async ({ params, query, caller }) => {
      // What is set aside is out of its owner's reach, and of his quota.
      if (query.unsaved === 'aside' && !includesScope(caller.scope, 'admin'))
        throw new AppError(
          'forbidden',
          'unsaved=aside fills the daemon’s disk: it takes a key of scope "admin"',
        );
      await sandboxes.destroy(params.id, query.unsaved);
      return empty;
    },
    'sandbox.pause': async ({ params, body }) => json(await sandboxes.pause(params.id, body.keep)),
    'sandbox.resume': async ({ params }) => json(await sandboxes.resume(params.id)),
  };
}

function creating(
  engine: Engine,
  rules: Pick<EgressRules, 'upstreams'>,
): Handler<(typeof sandboxOperations)['sandbox.create']> {
  return async ({ body, caller, header }) => {
    const once = onceOf(header('idempotency-key'), { caller, operation: 'sandbox.create', asked: body });
    const id = await createSandbox(engine, rules, { body, caller, once });
    return json(engine.sandboxes.describe(id));
  };
}
