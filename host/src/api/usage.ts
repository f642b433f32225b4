/** `sandbox.usage`: what a sandbox uses. */
import type { usageOperations } from '@squash/contract/operations/usage';
import type { Engine } from '../engine/engine.ts';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';

export function usageHandlers({ usage }: Engine): HandlersOf<typeof usageOperations> {
  return { 'sandbox.usage': async ({ params }) => json(await usage.of(params.id)) };
}
