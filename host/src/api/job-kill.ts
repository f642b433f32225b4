/** `job.kill`: answers when the job has ended. */
import type { jobKill } from '@squash/contract/operations/jobs';
import { empty } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function jobKillHandler(engine: Engine): Handler<typeof jobKill> {
  return async ({ params }) => {
    await engine.killJob(params.id, params.jobId);
    return empty;
  };
}
