/** `job.start`. */
import type { jobStart } from '@squash/contract/operations/jobs';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function jobStartHandler(engine: Engine): Handler<typeof jobStart> {
  return async ({ params, body }) => {
    const { cmd, workdir, timeout } = body;
    return json(await engine.execBackground(params.id, { cmd, workdir, timeoutS: timeout }));
  };
}
