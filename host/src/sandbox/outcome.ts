/**
 * How a command ended, as the database and the API say it. Pure: facts in, record out.
 */
import type { ExecRecord, JobInfo } from '@squash/contract/exec';
import { limits } from '@squash/contract/limits';
import { rfc3339 } from '@squash/base/clock';
import { wholeCharacters } from '@squash/base/utf8';
import type { EndReason, ExecEnd, ExecRow } from '#store/rows.ts';
import type { GuestOutcome } from '../guest/guest.ts';

const sigkill = 9;
/** What a shell reports for a signal: 128 + its number. */
const signalExit = 128;
/** What `timeout(1)` reports, and the original did. */
const timedOutExit = 124;
const killedExit = signalExit + sigkill;

export interface Circumstances {
  /** A client asked for the job's end. */
  readonly killWanted: boolean;
  /** The kernel ended a process of this sandbox for want of memory while the command ran. */
  readonly oomKilled: boolean;
  /** The sandbox's commands were killed while this one ran, because the upper held more than its limit. */
  readonly upperFull: boolean;
}

/** The end of a command whose exit PID 1 reported. */
export function reportedEnd(outcome: GuestOutcome, finishedMs: number, seen: Circumstances): ExecEnd {
  const { signal } = outcome;
  const exitCode = outcome.timedOut
    ? timedOutExit
    : signal === undefined
      ? (outcome.exitCode ?? 0)
      : signalExit + signal;
  return { finishedMs, exitCode, signal, timedOut: outcome.timedOut, reason: reasonOf(outcome, seen) };
}

function reasonOf(outcome: GuestOutcome, seen: Circumstances): EndReason {
  if (outcome.timedOut) return 'timed_out';
  if (seen.killWanted) return 'killed';
  if (seen.oomKilled) return 'oom_killed';
  if (seen.upperFull) return 'upper_full';
  return outcome.signal === undefined ? 'exited' : 'signaled';
}

/** The end of a command that went with its sandbox: nobody reported an exit. */
export function forcedEnd(reason: EndReason, finishedMs: number): ExecEnd {
  const timedOut = reason === 'timed_out';
  return { finishedMs, exitCode: timedOut ? timedOutExit : killedExit, signal: sigkill, timedOut, reason };
}

/** The end of a command that never began: the codes a shell uses, 126 for "cannot run", 127 for "not found". */
export function unstartedEnd(isMissing: boolean, finishedMs: number): ExecEnd {
  return {
    finishedMs,
    exitCode: isMissing ? 127 : 126,
    signal: undefined,
    timedOut: false,
    reason: 'exited',
  };
}

export interface Streams {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
}

/** The record of a finished command. */
export function recordOf(row: ExecRow, end: ExecEnd, streams: Streams): ExecRecord {
  const stdout = streams.stdout.subarray(0, limits.answerStreamBytesMax);
  const stderr = streams.stderr.subarray(0, limits.answerStreamBytesMax);
  const isStdoutCut = row.stdoutBytes > stdout.length;
  const isStderrCut = row.stderrBytes > stderr.length;
  return {
    seq: row.seq,
    cmd: row.cmd,
    workdir: row.workdir,
    exit_code: end.exitCode,
    started: rfc3339(row.startedMs),
    finished: rfc3339(end.finishedMs),
    stdout: textOf(stdout, isStdoutCut),
    stderr: textOf(stderr, isStderrCut),
    // Of a command that an earlier daemon began the wall clock may have been set back meanwhile.
    duration_ms: Math.max(0, end.finishedMs - row.startedMs),
    timed_out: end.timedOut,
    truncated: isStdoutCut || isStderrCut,
    stdout_bytes: row.stdoutBytes,
    stderr_bytes: row.stderrBytes,
    reason: end.reason,
  };
}

/** UTF-8 with U+FFFD for what is none; where the text was cut, half a character at its end is left out. */
export function textOf(bytes: Buffer, isCut: boolean): string {
  return (isCut ? bytes.subarray(0, wholeCharacters(bytes)) : bytes).toString('utf8');
}

const endedFromOutside: ReadonlySet<EndReason> = new Set([
  'timed_out',
  'oom_killed',
  'upper_full',
  'layers_changed',
  'destroyed',
  'killed',
  'stopped',
  'lost',
]);

export function jobOf(row: ExecRow): JobInfo {
  const { end } = row;
  return {
    job_id: row.seq,
    cmd: row.cmd,
    workdir: row.workdir,
    status: end === undefined ? 'running' : endedFromOutside.has(end.reason) ? 'killed' : 'done',
    exit_code: end?.exitCode ?? null,
    started: rfc3339(row.startedMs),
    finished: end === undefined ? null : rfc3339(end.finishedMs),
    reason: end?.reason ?? null,
  };
}
