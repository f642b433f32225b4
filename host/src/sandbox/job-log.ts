/**
 * A job's numbered lines: what is stored behind a number, then what comes, until the job has ended.
 *
 * Only stored lines are given, so that a number means the same line to every reader and every later daemon.
 * Lines that have left the bounded log are skipped: a reader sees it from the gap in the numbers.
 */
import { textOf } from './outcome.ts';
import type { Run } from './run.ts';
import type { Store } from '#store/store.ts';
import type { StoredLine } from '#store/output.ts';

export interface JobLogLine {
  /** Rises by one per line of a job from 1: the SSE event id, and what `after` resumes behind. */
  readonly number: number;
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
}

export interface JobLogSource {
  readonly store: Store;
  /** Of the job's row. */
  readonly key: number;
  /** The job as it runs, or undefined once it has ended. */
  readonly run: () => Run | undefined;
}

/** Lines read at once: some hundred KiB at most in memory per reader. */
const batchLines = 256;

export async function* followJobLog(
  source: JobLogSource,
  after: number,
  signal: AbortSignal,
): AsyncIterableIterator<JobLogLine> {
  let last = after;
  while (!signal.aborted) {
    // Asked for before the lines are read: a change in between is not missed.
    const run = source.run();
    const changed = run?.changed();
    const lines = source.store.read(() => source.store.output.lines(source.key, last, batchLines));
    for (const line of lines) {
      last = line.number;
      yield lineOf(line);
      if (signal.aborted) return;
    }
    if (lines.length === batchLines) continue;
    if (run === undefined) return;
    await changedOrAborted(changed, signal);
  }
}

function lineOf(line: StoredLine): JobLogLine {
  const isWhole = line.data.at(-1) === 0x0a;
  const data = isWhole ? line.data.subarray(0, -1) : line.data;
  // `\r\n` ends a line as well: terminals and Windows tools write it.
  const text = data.at(-1) === 0x0d && isWhole ? data.subarray(0, -1) : data;
  return { number: line.number, stream: line.stream, text: textOf(text, false) };
}

export async function changedOrAborted(
  changed: Promise<void> | undefined,
  signal: AbortSignal,
): Promise<void> {
  const stop = new AbortController();
  const aborted = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true, signal: stop.signal });
  });
  await Promise.race([changed, aborted]);
  stop.abort();
}
