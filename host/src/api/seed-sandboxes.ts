/** `seed.*`: create, look at, destroy, as the original has them. A create chooses the base layer where none is named, and says which fields have no effect. */
import { AppError } from '@squash/contract/errors';
import type { seedSandboxOperations } from '@squash/contract/operations/seed-sandboxes';
import type { CreateWish } from '@squash/contract/sandbox';
import type { Engine } from '../engine/engine.ts';
import { ownerFor, sees } from '../http/caller.ts';
import { empty, json } from '../http/reply.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { checkUpstream, type EgressRules } from './network.ts';
import { baseLayer, namingModule } from './base-layer.ts';
import { askerOf } from './volumes.ts';
import { fieldWarnings } from './warnings.ts';

export function seedSandboxHandlers(
  engine: Engine,
  rules: Pick<EgressRules, 'upstreams'>,
): HandlersOf<typeof seedSandboxOperations> {
  return {
    'seed.create': creating(engine, rules),
    'seed.list': ({ caller }) => json(engine.sandboxes.list().filter(({ owner }) => sees(caller, owner))),
    'seed.get': ({ params }) => json(engine.sandboxes.get(params.id)),
    // Answers when nothing of the sandbox runs and its id is free; its files go behind the answer.
    'seed.destroy': async ({ params }) => {
      await engine.sandboxes.destroy(params.id);
      return empty;
    },
  };
}

function creating(
  engine: Engine,
  { upstreams }: Pick<EgressRules, 'upstreams'>,
): Handler<(typeof seedSandboxOperations)['seed.create']> {
  return async ({ body, unknownFields, caller }) => {
    if (body.allow_net && body.policy) {
      throw new AppError(
        'invalid_request',
        'allow_net and policy say the same in two ways: send one of them',
      );
    }
    checkUpstream(body.upstream ?? undefined, upstreams);
    const layers = body.layers.length > 0 ? body.layers : [await baseLayer(engine)];
    const wish: CreateWish = {
      id: body.id,
      owner: ownerFor(caller, body.owner),
      task: body.task,
      layers,
      cpu: body.cpu,
      memoryMb: body.memory_mb,
      maxLifetimeS: body.max_lifetime_s,
      allowNet: body.allow_net ?? undefined,
      policy: body.policy ?? undefined,
      secrets: body.secrets ?? 'all',
      ownSecrets: body.own_secrets ?? {},
      upstream: body.upstream ?? undefined,
      backend: body.backend ?? undefined,
      mounts: engine.volumes.plan(askerOf(caller, body.owner), body.mounts ?? []),
      warnings: fieldWarnings(unknownFields, body),
      native: undefined,
    };
    try {
      return json(await engine.sandboxes.create(wish));
    } catch (error) {
      throw await namingModule(error, engine, layers);
    }
  };
}
