/** `job.list`. */
import type { jobList } from '@squash/contract/operations/jobs';
import { json } from '../http/reply.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';

export function jobListHandler(engine: Engine): Handler<typeof jobList> {
  return ({ params }) => json(engine.jobs(params.id));
}
