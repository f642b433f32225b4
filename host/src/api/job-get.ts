/** `job.get`. */
import type { jobGet } from '@squash/contract/operations/jobs';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function jobGetHandler(engine: Engine): Handler<typeof jobGet> {
  return ({ params }) => json(engine.job(params.id, params.jobId));
}
