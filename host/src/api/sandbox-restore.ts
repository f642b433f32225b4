/** `sandbox.restore`. */
import type { sandboxRestore } from '@squash/contract/operations/layers';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function sandboxRestoreHandler(engine: Engine): Handler<typeof sandboxRestore> {
  return async ({ params, body }) => json(await engine.restore(params.id, body.label));
}
