/** `sandbox.list`. */
import type { sandboxList } from '@squash/contract/operations/sandboxes';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function sandboxListHandler(engine: Engine): Handler<typeof sandboxList> {
  return () => json(engine.list());
}
