/** `key.*`: keys are made, looked at and removed by an administrator; whoever asks may see who he is. */
import type { KeySelf } from '@squash/contract/keys';
import type { keyOperations } from '@squash/contract/operations/keys';
import { rfc3339 } from '@squash/base/clock';
import type { Engine } from '../engine/engine.ts';
import type { Caller } from '../http/caller.ts';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import { pageOf } from './page.ts';

export function keyHandlers(engine: Engine): HandlersOf<typeof keyOperations> {
  const { keys } = engine;
  return {
    'key.create': ({ body }) => json(keys.create(body)),
    'key.list': ({ query }) => {
      const wanted = keys.list().filter(({ owner }) => query.owner === undefined || owner === query.owner);
      return json(pageOf(wanted, ({ id }) => id, query));
    },
    'key.self': ({ caller }) => json(selfOf(engine, caller)),
    'key.get': ({ params }) => json(keys.get(params.key)),
    'key.remove': ({ params }) => {
      keys.remove(params.key);
      return empty;
    },
  };
}

function selfOf({ owners }: Engine, { held, scope }: Caller): KeySelf {
  if (held === null) {
    return { key: null, name: null, owner: null, scope, expires_at: null, quota: null, use: null };
  }
  const { id, name, owner, expiresMs } = held;
  const { quota, use } = owners.get(owner);
  return {
    key: id,
    name,
    owner,
    scope,
    expires_at: expiresMs === null ? null : rfc3339(expiresMs),
    quota,
    use,
  };
}
