/** `sandbox.activate`. */
import type { sandboxActivate } from '@squash/contract/operations/layers';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function sandboxActivateHandler(engine: Engine): Handler<typeof sandboxActivate> {
  return async ({ params, body }) => json(await engine.activate(params.id, body.module));
}
