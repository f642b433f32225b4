/**
 * Commands: `process.*`, `seed.exec`, `seed.logs` and `job.*`. A command runs to its end whether or not the client waits; a client
 * that comes back finds it in the log.
 */
import { limits } from '@squash/contract/limits';
import type { processOperations } from '@squash/contract/operations/processes';
import type { Engine } from '../engine/engine.ts';
import { empty, json } from '../http/reply.ts';
import type { HttpCounters } from '../http/counters.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { onceOf } from './idempotency-key.ts';
import { followingProcess, formatOf, outputReply } from './process-output.ts';
import { feeding } from './process-stdin.ts';
import { commandOf, execRequest } from './process-request.ts';
import { waiting } from './process-wait.ts';
import { followingJob } from './job-log.ts';

type Processes = Engine['processes'];

/** Answers the process, or at once its output where the client asks for a format of that. */
function starting(
  processes: Processes,
  counters: Pick<HttpCounters, 'streams'>,
): Handler<(typeof processOperations)['process.start']> {
  return async (call) => {
    const { params, body, caller, header } = call;
    const once = onceOf(header('idempotency-key'), {
      caller,
      operation: 'process.start',
      asked: [params.id, body],
    });
    const format = formatOf(header('accept'));
    // Before it runs: a start that is refused has started nothing.
    if (format !== undefined) counters.streams.check(caller.owner);
    const { pty: tty, stdin } = body;
    const request = { ...commandOf(body), tty, stdin: stdin ? 'open' : 'none', isBackground: true } as const;
    const started = await processes.launch(params.id, request, once);
    if (format === undefined) return json(started);
    const followed = {
      id: params.id,
      process: started.process,
      after: 0,
      isFollowing: true,
      isStalling: false,
      only: undefined,
    };
    return outputReply(processes, followed, { format, signal: call.signal });
  };
}

interface Page {
  readonly after: number;
  readonly limit: number;
}

export function processHandlers(
  { processes, sandboxes }: Engine,
  counters: Pick<HttpCounters, 'streams'>,
): HandlersOf<typeof processOperations> {
  return {
    'process.exec': async ({ params, body, caller, header }) => {
      const { encoding } = body;
      const once = onceOf(header('idempotency-key'), {
        caller,
        operation: 'process.exec',
        asked: [params.id, body],
      });
      return json(await processes.run(params.id, execRequest(body), { once, encoding }));
    },
    'process.start': starting(processes, counters),
    'process.list': ({ params, query }) => {
      const { state, tag, limit = limits.pageItemsDefault, cursor: after = 0 } = query;
      const { items, next } = processes.list(params.id, { state, tag }, { after, limit });
      return json({ items, next: next === undefined ? null : String(next) });
    },
    'process.get': ({ params }) => json(processes.get(params.id, params.process)),
    'process.output': followingProcess(processes),
    'process.stdin': feeding(processes),
    'process.resize': async ({ params, body }) => {
      await processes.resize(params.id, params.process, body);
      return empty;
    },
    'process.signal': async ({ params, body }) => {
      await processes.signal(params.id, params.process, body.signal);
      return empty;
    },
    'process.wait': waiting(processes),
    'seed.exec': async ({ params, body: { cmd, workdir, timeout } }) =>
      json(await processes.exec(params.id, { cmd, workdir, timeoutS: timeout })),
    'seed.logs': reading({ processes, sandboxes }),
    'job.start': async ({ params, body: { cmd, workdir, timeout } }) =>
      json(await processes.start(params.id, { cmd, workdir, timeoutS: timeout })),
    'job.list': listingJobs({ processes, sandboxes }),
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
}: Pick<Engine, 'processes' | 'sandboxes'>): Handler<(typeof processOperations)['seed.logs']> {
  return ({ params, query }) => {
    const page = { after: query.after ?? 0, limit: query.limit ?? limits.execHistoryMax };
    // Throws where there is no such sandbox, while a status can still say so.
    sandboxes.get(params.id);
    return {
      type: 'stream',
      contentType: 'application/json',
      pieces: jsonArray(
        pagesOf(
          (some) => processes.logs(params.id, some),
          ({ seq }) => seq,
          page,
        ),
      ),
    };
  };
}

/** A thousand of them may be commands of 64 KiB each. */
function listingJobs({
  processes,
  sandboxes,
}: Pick<Engine, 'processes' | 'sandboxes'>): Handler<(typeof processOperations)['job.list']> {
  return ({ params: { id } }) => {
    sandboxes.get(id);
    const all = { after: 0, limit: limits.execHistoryMax };
    const pages = pagesOf(
      (some) => processes.jobs(id, some),
      ({ job_id: job }) => job,
      all,
    );
    return { type: 'stream', contentType: 'application/json', pieces: jsonArray(pages) };
  };
}

async function* jsonArray(pages: Iterable<readonly object[]>): AsyncGenerator<string, void, void> {
  let separator = '[';
  for (const page of pages) {
    if (page.length === 0) continue;
    yield separator + page.map((record) => JSON.stringify(record)).join(',');
    separator = ',';
  }
  yield separator === '[' ? '[]' : ']';
}

/** A command that ends meanwhile may be in the answer or not; none is in it twice. */
function* pagesOf<T>(
  read: (page: Page) => readonly T[],
  numberOf: (item: T) => number,
  { after, limit }: Page,
): Generator<readonly T[]> {
  let left = limit;
  let behind = after;
  while (left > 0) {
    const page = read({ after: behind, limit: Math.min(left, limits.logsPageRecords) });
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < Math.min(left, limits.logsPageRecords)) return;
    left -= page.length;
    behind = numberOf(last);
  }
}
