/**
 * Commands: `sandbox.exec`, `sandbox.logs` and `job.*`. A command runs to its end whether or not the client waits; a client
 * that comes back finds it in the log.
 */
import type { ExecRecord } from '@squash/contract/exec';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { processOperations } from '@squash/contract/operations/processes';
import type { Engine } from '../engine/engine.ts';
import { empty, json } from '../http/reply.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { followingJob } from './job-log.ts';

type Processes = Engine['processes'];

interface Page {
  readonly after: number;
  readonly limit: number;
}

export function processHandlers({ processes, sandboxes }: Engine): HandlersOf<typeof processOperations> {
  return {
    'sandbox.exec': async ({ params, body: { cmd, workdir, timeout } }) =>
      json(await processes.exec(params.id, { cmd, workdir, timeoutS: timeout })),
    'sandbox.logs': reading({ processes, sandboxes }),
    'job.start': async ({ params, body: { cmd, workdir, timeout } }) =>
      json(await processes.start(params.id, { cmd, workdir, timeoutS: timeout })),
    'job.list': ({ params }) => json(processes.jobs(params.id)),
    'job.get': ({ params }) => json(processes.job(params.id, params.jobId)),
    'job.logs': followingJob(processes),
    // Answers when the job has ended.
    'job.kill': async ({ params }) => {
      await processes.killJob(params.id, params.jobId);
      return empty;
    },
  };
}

/** The log may hold a thousand records of 128 KiB, so it is read and sent some records at a time. */
function reading({
  processes,
  sandboxes,
}: Pick<Engine, 'processes' | 'sandboxes'>): Handler<(typeof processOperations)['sandbox.logs']> {
  return ({ params, query }) => {
    const page = { after: query.after ?? 0, limit: query.limit ?? limits.execHistoryMax };
    // Throws where there is no such sandbox, while a status can still say so.
    sandboxes.get(params.id);
    return {
      type: 'stream',
      contentType: 'application/json',
      pieces: jsonArray(records(processes, params.id, page)),
    };
  };
}

async function* jsonArray(pages: Iterable<readonly ExecRecord[]>): AsyncGenerator<string, void, void> {
  let separator = '[';
  for (const page of pages) {
    if (page.length === 0) continue;
    yield separator + page.map((record) => JSON.stringify(record)).join(',');
    separator = ',';
  }
  yield separator === '[' ? '[]' : ']';
}

/** A command that ends meanwhile may be in the answer or not; none is in it twice. */
function* records(
  processes: Processes,
  id: SandboxId,
  { after, limit }: Page,
): Generator<readonly ExecRecord[]> {
  let left = limit;
  let behind = after;
  while (left > 0) {
    const page = processes.logs(id, { after: behind, limit: Math.min(left, limits.logsPageRecords) });
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < Math.min(left, limits.logsPageRecords)) return;
    left -= page.length;
    behind = last.seq;
  }
}
