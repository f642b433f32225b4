/**
 * Starting commands in a sandbox: the row first, then the guest, so that a command that runs always has a number.
 */
import { AppError } from '@squash/contract/errors';
import type { Once } from '@squash/contract/once';
import type { ExecRecord, ExecStart, ShellExecRequest } from '@squash/contract/exec';
import { limits } from '@squash/contract/limits';
import { bug } from '@squash/base/bug';
import { faultPoint } from '#sandbox/fault.ts';
import type { ExecKind, ExecRow, StoredProcess } from '#store/rows.ts';
import type { GuestExec, GuestExecSpec } from '../guest/guest.ts';
import {
  baseEnvironment,
  commandLine,
  imageUser,
  streamEnvironment,
  userOf,
  workdirOf,
} from './environment.ts';
import { commandDefaults } from './host-root.ts';
import { LineRecorder } from './line-recorder.ts';
import { ProcessRecorder } from './process-recorder.ts';
import { HeadRecorder, type Recorder } from './recorder.ts';
import { Run } from './run.ts';
import type { Sandbox } from './sandbox.ts';
import { type ExecSession, Session, type Watching } from './session.ts';
import { asNumbers, type FindUser } from './user-names.ts';

interface CommandSpec extends Omit<GuestExecSpec, 'execId' | 'openFilesMax' | 'env'> {
  /** Asked when the sandbox is ready: before that the network may not know what its commands see. */
  readonly env: () => GuestExecSpec['env'];
}

export interface Command {
  readonly kind: ExecKind;
  readonly line: string;
  readonly spec: CommandSpec;
  /** Of a process of `/v1`. */
  readonly process?: StoredProcess;
  readonly tag?: string | undefined;
  readonly stdin?: Buffer | undefined;
  /** Its caller may ask for it again: then it is not begun again. */
  readonly once?: Once | undefined;
}

/** Runs to the end. @throws sandbox_not_ready, quota_exceeded, exec_limit, disk_full, guest_failed */
export async function execShell(sandbox: Sandbox, request: ShellExecRequest): Promise<ExecRecord> {
  const { run, failure } = await begin(sandbox, shellCommand('exec', request, sandbox));
  // A command that can't be started is a result, as a shell would report it; everything else is an error.
  if (failure !== undefined && failure.code !== 'exec_failed') throw failure;
  return run.done;
}

/** Resolves when the job runs. @throws as `execShell`, and exec_failed */
export async function execJob(sandbox: Sandbox, request: ShellExecRequest): Promise<ExecRow> {
  const { run, failure } = await begin(sandbox, shellCommand('job', request, sandbox));
  if (failure !== undefined && failure.code !== 'exec_failed') throw failure;
  return run.row;
}

/** @throws as `execShell`, and exec_failed */
export async function execStream(
  sandbox: Sandbox,
  asked: ExecStart,
  findUser: FindUser,
): Promise<ExecSession> {
  const start = await asNumbers(asked, findUser);
  const { tty, job_control: hasJobs } = start;
  const hasStdin = start.stdin || tty !== undefined;
  const command: Command = {
    kind: 'stream',
    line: commandLine(start.argv),
    spec: {
      argv: start.argv,
      env: () => streamEnvironment(start, sandbox.surroundings),
      cwd: workdirOf(start.cwd, commandDefaults(sandbox.row)),
      ...userOf(start, commandDefaults(sandbox.row)),
      tty: tty === undefined ? undefined : { rows: tty.rows, columns: tty.columns, hasJobs },
      stdin: hasStdin ? 'pipe' : 'none',
      timeoutMs: start.timeout_ms,
    },
  };
  const watching: Watching = { isDetached: start.detach, hasStdin, hasJobs };
  const { run, session, failure } = await begin(sandbox, command, watching);
  if (failure !== undefined) throw failure;
  return session ?? new Session(run, watching);
}

function shellCommand(kind: 'exec' | 'job', request: ShellExecRequest, sandbox: Sandbox): Command {
  return {
    kind,
    line: request.cmd,
    spec: {
      argv: ['/bin/sh', '-c', request.cmd],
      env: () => baseEnvironment(sandbox.surroundings),
      cwd: workdirOf(request.workdir, commandDefaults(sandbox.row)),
      ...imageUser(commandDefaults(sandbox.row)),
      tty: undefined,
      stdin: 'none',
      timeoutMs: request.timeoutS * 1_000,
    },
  };
}

export interface Begun {
  readonly run: Run;
  readonly session: Session | undefined;
  /** Why the guest did not start it; the run has ended. */
  readonly failure: AppError | undefined;
}

async function begin(sandbox: Sandbox, command: Command, watching?: Watching): Promise<Begun> {
  const begun = await beginOnce(sandbox, command, watching);
  bug(begun !== undefined, 'a command that nobody repeats was begun before');
  return begun;
}

/** Undefined where the same request has begun it before. @throws as `execShell`, and idempotency_mismatch */
export async function beginOnce(
  sandbox: Sandbox,
  command: Command,
  watching?: Watching,
): Promise<Begun | undefined> {
  let instance = await sandbox.ready();
  // Between the end of a wait and who waited others have a turn: the sandbox may stop, or be removed, in it.
  while (!sandbox.isAt(instance)) instance = await sandbox.ready();
  if (command.once !== undefined && madeBefore(sandbox, command.once) !== undefined) return undefined;
  checkRoom(sandbox);
  const env = command.spec.env();
  const row = insert(sandbox, command, instance);
  faultPoint('exec.inserted');
  const { guest } = sandbox;
  const run = runOf(sandbox, row);
  // Known to the sandbox before the guest is asked: whatever ends PID 1 meanwhile ends this run, too.
  sandbox.runs.set(row.seq, run);
  let exec: GuestExec;
  try {
    const { openFilesMax } = sandbox.row.limits;
    exec = await guest.exec({ ...command.spec, env, execId: row.execId, openFilesMax });
  } catch (error) {
    return { run, session: undefined, failure: await notStarted(sandbox, run, error) };
  }
  faultPoint('exec.started');
  if (run.end !== undefined) {
    // The sandbox was stopped between the guest's answer and now.
    exec.close();
    return { run, session: undefined, failure: undefined };
  }
  const session = watching === undefined ? undefined : new Session(run, watching);
  run.follow(exec, session);
  return { run, session, failure: undefined };
}

/** Its number, where it was made. @throws idempotency_mismatch */
export function madeBefore({ world }: Sandbox, once: Once): number | undefined {
  const { store, clock } = world;
  return store.read(() => store.idempotency.find(once, clock.wallMs()))?.seq ?? undefined;
}

function checkRoom(sandbox: Sandbox): void {
  sandbox.world.quotas.checkExec(sandbox.row);
  if (sandbox.runs.size < limits.execsRunningMax) return;
  throw new AppError(
    'exec_limit',
    `Cannot start a command in sandbox "${sandbox.row.id}": ${sandbox.runs.size} run already: wait for one to end`,
  );
}

function insert(sandbox: Sandbox, command: Command, instance: number): ExecRow {
  const { store } = sandbox.world;
  const startedMs = sandbox.nowMs();
  const row = store.transaction(() => {
    const begun = store.execs.begin(sandbox.row.id, {
      kind: command.kind,
      cmd: command.line,
      workdir: command.spec.cwd,
      timeoutMs: command.spec.timeoutMs,
      startedMs,
      instance,
      process: command.process,
      tag: command.tag,
      stdin: command.stdin,
    });
    const { once } = command;
    if (once !== undefined) {
      store.idempotency.add(once, { sandbox: sandbox.row.id, seq: begun.seq }, startedMs);
    }
    return begun;
  });
  sandbox.tookSeq(row.seq, startedMs);
  return row;
}

/** A command of this row, that is about to start or runs already. */
export function runOf(sandbox: Sandbox, row: ExecRow): Run {
  const { guest, world } = sandbox;
  const isGiven = row.process?.stdin === 'given';
  const input = isGiven ? world.store.read(() => world.store.execs.stdin(row.key)) : undefined;
  return new Run({ row, recorder: recorderFor(sandbox, row), guest, host: sandbox, input });
}

function recorderFor(sandbox: Sandbox, row: ExecRow): Recorder {
  const { store, outputBudget: budget } = sandbox.world;
  if (row.process !== undefined) {
    return new ProcessRecorder({ store, budget, sandbox: sandbox.row.id }, row, row.process);
  }
  return row.kind === 'job' ? new LineRecorder(store, row) : new HeadRecorder(store, row);
}

/** Ends the row of a command that the guest did not start. Undefined where the run ended as a run. */
async function notStarted(sandbox: Sandbox, run: Run, error: unknown): Promise<AppError | undefined> {
  // The sandbox has ended it already, and said why: nothing of it is looked for in another PID 1.
  if (run.end !== undefined) return undefined;
  const failure =
    error instanceof AppError
      ? error
      : new AppError('internal', 'Cannot start the command', { cause: error });
  if (failure.code === 'guest_failed') {
    // The connection broke before the answer: the command may run. Only the guest knows, if it lives.
    run.resume(failure);
    await run.done;
    return undefined;
  }
  run.unstarted(isProgramMissing(failure), failure.message);
  sandbox.world.log.debug('exec.unstarted', { sandbox: sandbox.row.id, seq: run.row.seq, error: failure });
  return failure;
}

/** Of what a start needs only the program counts as "not found": its directory is the caller's to mend. */
function isProgramMissing({ cause }: AppError): boolean {
  if (!(cause instanceof Error && 'step' in cause && 'code' in cause)) return false;
  return cause.step === 'the program' && (cause.code === 'ENOENT' || cause.code === 'ENOTDIR');
}
