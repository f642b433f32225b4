/** `module.remove`. */
import type { moduleRemove } from '@squash/contract/operations/modules';
import { empty } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function moduleRemoveHandler(engine: Engine): Handler<typeof moduleRemove> {
  return async ({ params }) => {
    await engine.removeModule(params.name);
    return empty;
  };
}
