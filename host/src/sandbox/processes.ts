/**
 * Processes of `/v1`: started from a request, which may be repeated, and told of by number or tag.
 */
import { AppError } from '@squash/contract/errors';
import type { Once } from '@squash/contract/once';
import type {
  ProcessEncoding,
  ProcessInfo,
  ProcessReference,
  ProcessRequest,
  ProcessResult,
} from '@squash/contract/process';
import { rfc3339 } from '@squash/base/clock';
import type { ExecRow, StreamName } from '#store/rows.ts';
import { beginOnce, type Command, madeBefore } from './commands.ts';
import { commandLine, streamEnvironment, userOf, workdirOf } from './environment.ts';
import { commandDefaults } from './host-root.ts';
import { textOf } from './outcome.ts';
import type { Run } from './run.ts';
import type { Sandbox } from './sandbox.ts';
import { asNumbers, type FindUser } from './user-names.ts';

/** What a number or a tag names. The run is there as long as the process runs. */
export interface Found {
  readonly row: ExecRow;
  readonly run: Run | undefined;
}

/**
 * Starts it, unless the same request has done so before. A program that can't be started is a process that has ended.
 * @throws sandbox_not_ready, exec_limit, disk_full, guest_failed, idempotency_mismatch, process_not_found
 */
export async function startProcess(
  sandbox: Sandbox,
  request: ProcessRequest,
  { once, findUser }: { readonly once: Once | undefined; readonly findUser: FindUser },
): Promise<Found> {
  const before = once === undefined ? undefined : madeBefore(sandbox, once);
  if (before !== undefined) return findProcess(sandbox, before);
  const begun = await beginOnce(sandbox, commandOf(sandbox, await asNumbers(request, findUser), once));
  if (begun === undefined) {
    const seq = once === undefined ? undefined : madeBefore(sandbox, once);
    return findProcess(sandbox, seq ?? 0);
  }
  const { run, failure } = begun;
  if (failure !== undefined && failure.code !== 'exec_failed') {
    // It did not run and its caller is told so: when he asks again he means it.
    const { store } = sandbox.world;
    if (once !== undefined) store.transaction(() => store.idempotency.forget(once));
    throw failure;
  }
  return { row: run.present, run };
}

function commandOf(sandbox: Sandbox, request: ProcessRequest, once: Once | undefined): Command {
  const { argv, shell = '', tty, cwd, tag, timeoutMs, stdin } = request;
  const image = commandDefaults(sandbox.row);
  const user = userOf(request, image);
  const given = typeof stdin === 'string' ? undefined : Buffer.from(stdin);
  const takesInput = tty !== undefined || stdin !== 'none';
  return {
    kind: 'process',
    line: argv === undefined ? shell : commandLine(argv),
    spec: {
      argv: argv ?? ['/bin/sh', '-c', shell],
      env: () => streamEnvironment(request, sandbox.surroundings),
      cwd: workdirOf(cwd, image),
      ...user,
      tty: tty === undefined ? undefined : { rows: tty.rows, columns: tty.columns },
      stdin: takesInput ? 'pipe' : 'none',
      timeoutMs,
    },
    process: {
      argv: argv === undefined ? null : [...argv],
      ...user,
      pty: tty !== undefined,
      isBackground: request.isBackground,
      stdin: given === undefined ? (takesInput ? 'open' : 'none') : 'given',
      outputBytesMax: request.outputBytesMax,
      keep: request.keep,
    },
    tag,
    stdin: given,
    once,
  };
}

/** @throws process_not_found */
export function findProcess(sandbox: Sandbox, reference: ProcessReference): Found {
  const { store } = sandbox.world;
  const { id } = sandbox.row;
  const row = store.read(() =>
    typeof reference === 'number' ? store.execs.get(id, reference) : store.execs.tagged(id, reference.tag),
  );
  if (row !== undefined) return presentOf(sandbox, row);
  // Rows go a moment before their sandbox does.
  if (sandbox.state.phase === 'destroying')
    throw new AppError('sandbox_not_found', `Cannot find sandbox "${id}"`);
  const name = typeof reference === 'number' ? `${reference}` : `tagged ${JSON.stringify(reference.tag)}`;
  throw new AppError(
    'process_not_found',
    `Cannot find process ${name} of sandbox "${id}": there was none, or it has left the bounded history`,
  );
}

export function presentOf(sandbox: Sandbox, row: ExecRow): Found {
  const run = sandbox.runs.get(row.seq);
  // What a run has taken and not stored yet is in no row.
  return run?.row.key === row.key ? { row: run.present, run } : { row, run: undefined };
}

/** The process as it is when it has ended. @throws shutting_down, disk_full, sandbox_not_found, sandbox_paused */
export async function endedProcess({ row, run }: Found): Promise<Found> {
  if (run === undefined) {
    if (row.end === undefined) throw unfollowed(row.seq);
    return { row, run };
  }
  using _ = run.look();
  await run.done;
  return { row: run.present, run: undefined };
}

/** A daemon that finds a sandbox at rest looks into it when it goes on. */
export function unfollowed(seq: number): AppError {
  return new AppError(
    'sandbox_paused',
    `Process ${seq} stands still with its sandbox, and this daemon has not followed it yet: resume the sandbox`,
  );
}

export function infoOf({ row, run }: Found): ProcessInfo {
  const { process, end } = row;
  return {
    process: row.seq,
    tag: row.tag ?? null,
    kind: process?.isBackground === false ? 'exec' : row.kind,
    state: end === undefined ? 'running' : 'ended',
    pid: end === undefined ? (run?.exec?.pid ?? null) : null,
    argv: process?.argv === undefined || process.argv === null ? null : [...process.argv],
    command: row.cmd,
    cwd: row.workdir,
    user: process === undefined ? null : { uid: process.uid, gid: process.gid },
    pty: process?.pty ?? false,
    stdin: process === undefined || process.stdin === 'none' ? 'none' : row.stdinEnded ? 'ended' : 'open',
    timeout_ms: row.timeoutMs ?? null,
    started_at: rfc3339(row.startedMs),
    finished_at: end === undefined ? null : rfc3339(end.finishedMs),
    // Of a process that an earlier daemon began the wall clock may have been set back meanwhile.
    duration_ms: end === undefined ? null : Math.max(0, end.finishedMs - row.startedMs),
    exit_code: end?.exitCode ?? null,
    signal: end?.signal ?? null,
    timed_out: end?.timedOut ?? false,
    reason: end?.reason ?? null,
    stdout_bytes: row.stdoutBytes,
    stderr_bytes: row.stderrBytes,
  };
}

/** With the output that is kept. */
export function resultOf(sandbox: Sandbox, ended: Found, encoding: ProcessEncoding): ProcessResult {
  const { store } = sandbox.world;
  const { row } = ended;
  const max = row.process?.outputBytesMax ?? 0;
  const total = row.stdoutBytes + row.stderrBytes;
  const from = row.process?.keep === 'tail' ? Math.max(0, total - max) : 0;
  const pieces = store.read(() => store.processOutput.read(row.key, from, Number.MAX_SAFE_INTEGER));
  const bytesOf = (stream: StreamName): Buffer =>
    Buffer.concat(pieces.filter((piece) => piece.stream === stream).map(({ data }) => data));
  const stdout = bytesOf('stdout');
  const stderr = bytesOf('stderr');
  const isCut = { stdout: stdout.length < row.stdoutBytes, stderr: stderr.length < row.stderrBytes };
  const isHead = row.process?.keep === 'head';
  const shown = (bytes: Buffer, cut: boolean): string =>
    encoding === 'base64'
      ? bytes.toString('base64')
      : textOf(cut && !isHead ? atCharacter(bytes) : bytes, cut && isHead);
  return {
    ...infoOf(ended),
    encoding,
    stdout: shown(stdout, isCut.stdout),
    stderr: shown(stderr, isCut.stderr),
    truncated: isCut.stdout || isCut.stderr,
  };
}

/** Without the end of a character whose beginning was dropped. */
function atCharacter(bytes: Buffer): Buffer {
  let from = 0;
  while (from < Math.min(3, bytes.length) && ((bytes[from] ?? 0) & 0xc0) === 0x80) from += 1;
  return bytes.subarray(from);
}
