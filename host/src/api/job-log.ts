/**
 * `job.logs`: a job's lines as server-sent events, from wherever the client left off.
 *
 * Every line has its number as event id, so a client that reconnects with `Last-Event-ID` misses none and gets
 * none twice. A carriage return would end a line of the event format: a text that holds one is sent as several
 * `data` lines, which clients join by newlines.
 */
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import type { processOperations } from '@squash/contract/operations/processes';
import type { Engine } from '../engine/engine.ts';
import type { Handler } from '../http/router.ts';
import type { JobLogLine } from '../sandbox/job-log.ts';
import { resumePoint } from './resume-point.ts';

type Processes = Engine['processes'];

export function followingJob(processes: Processes): Handler<(typeof processOperations)['job.logs']> {
  return ({ params, query, header, signal }) => {
    const after = resumePoint(header('last-event-id')) ?? query.after ?? 0;
    // Throws where there is no such job, while a status can still say so.
    processes.job(params.id, params.jobId);
    const follow: Follow = {
      id: params.id,
      jobId: params.jobId,
      after,
      isNamed: query.streams === true,
      signal,
    };
    return {
      type: 'stream',
      contentType: 'text/event-stream',
      pieces: events(processes, follow),
      keepAlive: ': keep-alive\n\n',
    };
  };
}

interface Follow {
  readonly id: SandboxId;
  readonly jobId: number;
  readonly after: number;
  readonly isNamed: boolean;
  readonly signal: AbortSignal;
}

async function* events(processes: Processes, follow: Follow): AsyncGenerator<string, void, void> {
  const { id, jobId, signal } = follow;
  try {
    for await (const line of processes.jobLog(id, jobId, follow.after, signal))
      yield event(line, follow.isNamed);
  } catch (error) {
    // The client is gone or the daemon stops: the stream ends without `done`, and clients resume elsewhere.
    if (signal.aborted) return;
    if (!isGone(error)) throw error;
  }
  if (signal.aborted) return;
  yield `event: done\ndata: ${JSON.stringify({ exit_code: exitCodeOf(processes, follow) })}\n\n`;
}

/** Null of a job whose sandbox was removed before its last line was taken: nobody keeps how it ended. */
function exitCodeOf(processes: Processes, { id, jobId }: Follow): number | null {
  try {
    return processes.job(id, jobId).exit_code;
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
}

function isGone(error: unknown): boolean {
  return error instanceof AppError && (error.code === 'sandbox_not_found' || error.code === 'job_not_found');
}

export function event(line: JobLogLine, isNamed: boolean): string {
  const name = isNamed && line.stream === 'stderr' ? 'event: stderr\n' : '';
  const data = line.text.split(/\r\n|\r|\n/).map((part) => `data: ${part}\n`);
  return `id: ${line.number}\n${name}${data.join('')}\n`;
}
