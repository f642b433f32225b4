/** `sandbox.snapshot` and `sandbox.restore`. */
import type { snapshotOperations } from '@squash/contract/operations/snapshots';
import type { Engine } from '../engine/engine.ts';
import { json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';

export function snapshotHandlers({ snapshots }: Engine): HandlersOf<typeof snapshotOperations> {
  return {
    'sandbox.snapshot': async ({ params, body }) => {
      const { label, size, pauseMs } = await snapshots.take(params.id, body.label);
      return json({ snapshot: label, size, pause_ms: pauseMs });
    },
    'sandbox.restore': async ({ params, body }) => json(await snapshots.restore(params.id, body.label)),
  };
}
