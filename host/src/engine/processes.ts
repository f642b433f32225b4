/** Commands in sandboxes: run to the end, with a live stream, in the background, and the log of all of them. */
import { AppError } from '@squash/contract/errors';
import type { ExecRecord, ExecStart, JobInfo, ShellExecRequest } from '@squash/contract/exec';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { ExecRow } from '#store/rows.ts';
import type { Store } from '#store/store.ts';
import { execJob, execShell, execStream } from '../sandbox/commands.ts';
import { followJobLog, type JobLogLine } from '../sandbox/job-log.ts';
import { jobHead } from '../sandbox/line-recorder.ts';
import { jobOf, recordOf } from '../sandbox/outcome.ts';
import type { ExecSession } from '../sandbox/session.ts';
import type { Residents } from './residents.ts';

export interface Processes {
  /** Resolves when the command has ended, however it did. */
  exec(id: SandboxId, request: ShellExecRequest): Promise<ExecRecord>;
  stream(id: SandboxId, start: ExecStart): Promise<ExecSession>;
  /** Resolves when the job runs. */
  start(id: SandboxId, request: ShellExecRequest): Promise<JobInfo>;
  jobs(id: SandboxId): readonly JobInfo[];
  job(id: SandboxId, jobId: number): JobInfo;
  /** Stored lines after `after`, then live ones; ends when the job has ended and all lines were given. */
  jobLog(id: SandboxId, jobId: number, after: number, signal: AbortSignal): AsyncIterableIterator<JobLogLine>;
  /** TERM, 2 s, KILL to the job's process group; resolves when it ended. Idempotent. */
  killJob(id: SandboxId, jobId: number): Promise<void>;
  /** Finished commands, oldest first, by number. */
  logs(id: SandboxId, page?: { readonly after: number; readonly limit: number }): readonly ExecRecord[];
}

export class LocalProcesses implements Processes {
  readonly #store: Store;
  readonly #residents: Residents;

  constructor(store: Store, residents: Residents) {
    this.#store = store;
    this.#residents = residents;
  }

  async exec(id: SandboxId, request: ShellExecRequest): Promise<ExecRecord> {
    return execShell(this.#residents.find(id), request);
  }

  async stream(id: SandboxId, start: ExecStart): Promise<ExecSession> {
    return execStream(this.#residents.find(id), start);
  }

  async start(id: SandboxId, request: ShellExecRequest): Promise<JobInfo> {
    const row = await execJob(this.#residents.find(id), request);
    return this.job(id, row.seq);
  }

  jobs(id: SandboxId): readonly JobInfo[] {
    this.#residents.find(id);
    return this.#store.read(() => this.#store.execs.jobs(id)).map(jobOf);
  }

  job(id: SandboxId, jobId: number): JobInfo {
    return jobOf(this.#jobRow(id, jobId));
  }

  async *jobLog(
    ...[id, jobId, after, signal]: Parameters<Processes['jobLog']>
  ): AsyncIterableIterator<JobLogLine> {
    const { key } = this.#jobRow(id, jobId);
    const run = () => {
      const found = this.#residents.peek(id)?.runs.get(jobId);
      // Another sandbox may have this id by now, and a job of this number.
      return found?.row.key === key ? found : undefined;
    };
    yield* followJobLog({ store: this.#store, key, run }, after, signal);
  }

  async killJob(id: SandboxId, jobId: number): Promise<void> {
    const row = this.#jobRow(id, jobId);
    const sandbox = this.#residents.find(id);
    // What stands still takes no signal.
    if (sandbox.state.phase === 'paused') await sandbox.ready();
    const run = sandbox.runs.get(jobId);
    if (run === undefined) return;
    if (!row.killWanted) this.#store.transaction(() => this.#store.execs.wantKill(row.key));
    run.kill();
    await run.done;
  }

  logs(id: SandboxId, page = { after: 0, limit: limits.execHistoryMax }): readonly ExecRecord[] {
    this.#residents.find(id);
    return this.#store.read(() => this.#store.execs.finished(id, page).map((row) => this.#record(row)));
  }

  #jobRow(id: SandboxId, jobId: number): ExecRow {
    const { phase } = this.#residents.find(id).state;
    const row = this.#store.read(() => this.#store.execs.get(id, jobId));
    if (row?.kind === 'job') return row;
    // Rows go a moment before their sandbox does.
    if (phase === 'destroying') throw new AppError('sandbox_not_found', `Cannot find sandbox "${id}"`);
    throw new AppError('job_not_found', `Cannot find job ${jobId} of sandbox "${id}"`);
  }

  #record(row: ExecRow): ExecRecord {
    const store = this.#store;
    if (row.end === undefined) throw new AppError('internal', `Exec ${row.seq} has not ended`);
    const bytesMax = limits.answerStreamBytesMax;
    const head = (stream: 'stdout' | 'stderr'): Buffer =>
      row.kind === 'job' ? jobHead(store, row.key, stream) : store.output.read(row.key, stream, bytesMax);
    return recordOf(row, row.end, { stdout: head('stdout'), stderr: head('stderr') });
  }
}
