/** `sandbox.snapshot`. */
import type { sandboxSnapshot } from '@squash/contract/operations/layers';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function sandboxSnapshotHandler(engine: Engine): Handler<typeof sandboxSnapshot> {
  return async ({ params, body }) => {
    const { label, size, pauseMs } = await engine.snapshot(params.id, body.label);
    return json({ snapshot: label, size, pause_ms: pauseMs });
  };
}
