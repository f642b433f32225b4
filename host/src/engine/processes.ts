/** Commands in sandboxes: run to the end, with a live stream, in the background, and the log of all of them. */
import { AppError } from '@squash/contract/errors';
import type { Once } from '@squash/contract/once';
import type { ExecRecord, ExecStart, JobInfo, ShellExecRequest } from '@squash/contract/exec';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type {
  ProcessEncoding,
  ProcessInfo,
  ProcessReference,
  ProcessRequest,
  ProcessResult,
  WaitAnswer,
} from '@squash/contract/process';
import type { ExecFilter } from '#store/execs.ts';
import type { ExecRow } from '#store/rows.ts';
import type { Store } from '#store/store.ts';
import { execJob, execShell, execStream } from '../sandbox/commands.ts';
import { followJobLog, type JobLogLine } from '../sandbox/job-log.ts';
import { jobHead } from '../sandbox/line-recorder.ts';
import { jobOf, recordOf } from '../sandbox/outcome.ts';
import { type Input, resizeProcess, signalProcess, writeInput } from '../sandbox/process-input.ts';
import {
  followOutput,
  type OutputEvent,
  type OutputSource,
  type OutputWish,
} from '../sandbox/process-output.ts';
import { type Awaited, waitFor } from '../sandbox/process-wait.ts';
import {
  endedProcess,
  findProcess,
  infoOf,
  presentOf,
  resultOf,
  startProcess,
} from '../sandbox/processes.ts';
import type { ExecSession } from '../sandbox/session.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { FindUser } from '../sandbox/user-names.ts';
import type { Files } from './files.ts';
import type { Residents } from './residents.ts';

export interface Processes {
  /** Resolves with the result when the process has ended, also where the same request began it before. */
  run(id: SandboxId, request: ProcessRequest, options: RunOptions): Promise<ProcessResult>;
  /** Resolves when the process runs, or has failed to. */
  launch(id: SandboxId, request: ProcessRequest, once: Once | undefined): Promise<ProcessInfo>;
  /** Every command, however it was started, oldest first; `next` is what the next page is after. */
  list(id: SandboxId, filter: ExecFilter, page: ListPage): ProcessPage;
  get(id: SandboxId, process: ProcessReference): ProcessInfo;
  /** What is kept behind a position, then what comes, until it has ended. @throws output_not_kept */
  output(
    id: SandboxId,
    process: ProcessReference,
    wish: OutputWish,
    signal: AbortSignal,
  ): AsyncIterable<OutputEvent>;
  /** Resolves with the bytes when the process has them. @throws process_ended, stdin_closed, stdin_blocked, guest_failed */
  write(id: SandboxId, process: ProcessReference, input: Input): Promise<number>;
  resize(id: SandboxId, process: ProcessReference, size: TerminalSize): Promise<void>;
  signal(id: SandboxId, process: ProcessReference, signo: number): Promise<void>;
  /** TERM, 2 s, KILL to its process group; resolves when it ended. Idempotent. */
  end(id: SandboxId, process: number): Promise<void>;
  /** Undefined where `signal` ended the wait. @throws process_ended, output_not_kept */
  wait(
    id: SandboxId,
    process: ProcessReference,
    wish: Awaited,
    signal: AbortSignal,
  ): Promise<WaitAnswer | undefined>;
  /** Resolves when the command has ended, however it did. */
  exec(id: SandboxId, request: ShellExecRequest): Promise<ExecRecord>;
  stream(id: SandboxId, start: ExecStart): Promise<ExecSession>;
  /** Resolves when the job runs. */
  start(id: SandboxId, request: ShellExecRequest): Promise<JobInfo>;
  jobs(id: SandboxId, page: ListPage): readonly JobInfo[];
  job(id: SandboxId, jobId: number): JobInfo;
  /** Stored lines after `after`, then live ones; ends when the job has ended and all lines were given. */
  jobLog(id: SandboxId, jobId: number, after: number, signal: AbortSignal): AsyncIterableIterator<JobLogLine>;
  /** TERM, 2 s, KILL to the job's process group; resolves when it ended. Idempotent. */
  killJob(id: SandboxId, jobId: number): Promise<void>;
  /** Finished commands, oldest first, by number. */
  logs(id: SandboxId, page?: { readonly after: number; readonly limit: number }): readonly ExecRecord[];
}

/** Of commands in a page of the list, which ends with the one that goes beyond: a history of long ones would take 70 MiB. */
const pageChars = 1_048_576;

export interface ListPage {
  readonly after: number;
  readonly limit: number;
}

export interface ProcessPage {
  readonly items: readonly ProcessInfo[];
  readonly next: number | undefined;
}

interface TerminalSize {
  readonly rows: number;
  readonly columns: number;
}

export interface RunOptions {
  readonly once: Once | undefined;
  readonly encoding: ProcessEncoding;
}

export class LocalProcesses implements Processes {
  readonly #store: Store;
  readonly #residents: Residents;
  readonly #files: Pick<Files, 'user'>;

  constructor(store: Store, residents: Residents, files: Pick<Files, 'user'>) {
    this.#store = store;
    this.#residents = residents;
    this.#files = files;
  }

  #findUser(id: SandboxId): FindUser {
    return (name) => this.#files.user(id, name);
  }

  async run(id: SandboxId, request: ProcessRequest, { once, encoding }: RunOptions): Promise<ProcessResult> {
    const sandbox = this.#residents.find(id);
    const started = await startProcess(sandbox, request, { once, findUser: this.#findUser(id) });
    return resultOf(sandbox, await endedProcess(started), encoding);
  }

  async launch(id: SandboxId, request: ProcessRequest, once: Once | undefined): Promise<ProcessInfo> {
    return infoOf(
      await startProcess(this.#residents.find(id), request, { once, findUser: this.#findUser(id) }),
    );
  }

  list(id: SandboxId, filter: ExecFilter, { after, limit }: ListPage): ProcessPage {
    const sandbox = this.#residents.find(id);
    return this.#store.read(() => {
      const items: ProcessInfo[] = [];
      let chars = 0;
      // One more than is shown: whether there is another page is then known.
      for (const row of this.#store.execs.page(id, filter, { after, limit: limit + 1 })) {
        if (items.length === limit || chars > pageChars) return { items, next: items.at(-1)?.process };
        const info = infoOf(presentOf(sandbox, row));
        items.push(info);
        chars += info.command.length + (info.argv ?? []).join('').length;
      }
      return { items, next: undefined };
    });
  }

  get(id: SandboxId, process: ProcessReference): ProcessInfo {
    return infoOf(findProcess(this.#residents.find(id), process));
  }

  output(...[id, process, wish, signal]: Parameters<Processes['output']>): AsyncIterable<OutputEvent> {
    const { row } = findProcess(this.#residents.find(id), process);
    return followOutput(this.#sourceOf(id, row), wish, signal);
  }

  async write(id: SandboxId, process: ProcessReference, input: Input): Promise<number> {
    const sandbox = await this.#awake(id);
    return writeInput(sandbox, findProcess(sandbox, process), input);
  }

  async resize(id: SandboxId, process: ProcessReference, { rows, columns }: TerminalSize): Promise<void> {
    await resizeProcess(findProcess(await this.#awake(id), process), rows, columns);
  }

  async signal(id: SandboxId, process: ProcessReference, signo: number): Promise<void> {
    await signalProcess(findProcess(await this.#awake(id), process), signo);
  }

  async wait(...[id, process, wish, signal]: Parameters<Processes['wait']>): Promise<WaitAnswer | undefined> {
    const sandbox = this.#residents.find(id);
    const found = findProcess(sandbox, process);
    const source = (): OutputSource => this.#sourceOf(id, found.row);
    const met = await waitFor({ ...found, sandbox, source }, wish, signal);
    return met && { process: infoOf(findProcess(sandbox, found.row.seq)), ...met };
  }

  /** What stands still takes neither input nor signals. */
  async #awake(id: SandboxId): Promise<Sandbox> {
    const sandbox = this.#residents.find(id);
    sandbox.activity.touch();
    if (sandbox.state.phase === 'paused') await sandbox.ready();
    return sandbox;
  }

  #sourceOf(id: SandboxId, { key, seq, kind }: ExecRow): OutputSource {
    if (kind !== 'process') {
      throw new AppError('output_not_kept', `Command ${seq} of sandbox "${id}" is no process of /v1`);
    }
    const row = (): ExecRow => {
      const found = this.#store.read(() => this.#store.execs.get(id, seq));
      if (found?.key === key) return found;
      throw new AppError(
        'sandbox_not_found',
        `Sandbox "${id}" was removed, and what process ${seq} wrote with it`,
      );
    };
    return {
      store: this.#store,
      seq,
      key,
      run: () => {
        const run = this.#residents.peek(id)?.runs.get(seq);
        // Another sandbox may have this id by now, and a process of this number.
        return run?.row.key === key ? run : undefined;
      },
      stored: () => {
        const { stdoutBytes, stderrBytes, end } = row();
        return { bytes: stdoutBytes + stderrBytes, isAll: end !== undefined };
      },
    };
  }

  async exec(id: SandboxId, request: ShellExecRequest): Promise<ExecRecord> {
    return execShell(this.#residents.find(id), request);
  }

  async stream(id: SandboxId, start: ExecStart): Promise<ExecSession> {
    return execStream(this.#residents.find(id), start, this.#findUser(id));
  }

  async start(id: SandboxId, request: ShellExecRequest): Promise<JobInfo> {
    const row = await execJob(this.#residents.find(id), request);
    return this.job(id, row.seq);
  }

  jobs(id: SandboxId, page: ListPage): readonly JobInfo[] {
    this.#residents.find(id);
    return this.#store.read(() => this.#store.execs.jobs(id, page)).map(jobOf);
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
    this.#jobRow(id, jobId);
    await this.end(id, jobId);
  }

  async end(id: SandboxId, process: number): Promise<void> {
    const { row } = findProcess(this.#residents.find(id), process);
    const sandbox = this.#residents.find(id);
    // What stands still takes no signal.
    if (sandbox.state.phase === 'paused') await sandbox.ready();
    const run = sandbox.runs.get(process);
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
      row.kind === 'job'
        ? jobHead(store, row.key, stream)
        : row.kind === 'process'
          ? store.processOutput.head(row.key, stream, bytesMax)
          : store.output.read(row.key, stream, bytesMax);
    return recordOf(row, row.end, { stdout: head('stdout'), stderr: head('stderr') });
  }
}
