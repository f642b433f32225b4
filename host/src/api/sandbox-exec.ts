/**
 * `sandbox.exec`: runs to its end whether or not the client waits; a client that comes back finds it in the log.
 */
import type { sandboxExec } from '@squash/contract/operations/commands';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function sandboxExecHandler(engine: Engine): Handler<typeof sandboxExec> {
  return async ({ params, body }) => {
    const { cmd, workdir, timeout } = body;
    return json(await engine.exec(params.id, { cmd, workdir, timeoutS: timeout }));
  };
}
