/** `sandbox.paths`: which paths the programs of a sandbox were refused. */
import type { pathOperations } from '@squash/contract/operations/paths';
import type { Engine } from '../engine/engine.ts';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';

export function pathHandlers({ paths }: Engine): HandlersOf<typeof pathOperations> {
  return {
    'sandbox.paths': async ({ params, query }) => json(await paths.refused(params.id, query)),
  };
}
