/** `sandbox.destroy`: answers when nothing of the sandbox is left. */
import type { sandboxDestroy } from '@squash/contract/operations/sandboxes';
import { empty } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function sandboxDestroyHandler(engine: Engine): Handler<typeof sandboxDestroy> {
  return async ({ params }) => {
    await engine.destroy(params.id);
    return empty;
  };
}
