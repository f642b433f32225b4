/** `sandbox.get`. */
import type { sandboxGet } from '@squash/contract/operations/sandboxes';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function sandboxGetHandler(engine: Engine): Handler<typeof sandboxGet> {
  return ({ params }) => json(engine.get(params.id));
}
