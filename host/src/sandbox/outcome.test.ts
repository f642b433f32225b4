/** How a command ended, for every way to end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { execRecordSchema } from '@squash/contract/exec';
import type { ExecRow } from '#store/rows.ts';
import type { GuestOutcome } from '../guest/guest.ts';
import { forcedEnd, jobOf, recordOf, reportedEnd, textOf } from './outcome.ts';

const outcome = (part: Partial<GuestOutcome>): GuestOutcome => ({
  exitCode: undefined,
  signal: undefined,
  timedOut: false,
  stdoutBytes: 0,
  stderrBytes: 0,
  userUs: 0,
  systemUs: 0,
  rssMaxKib: 0,
  oomKills: 0,
  ...part,
});
const nothing = { killWanted: false, oomKilled: false, upperFull: false };
const row: ExecRow = {
  key: 1,
  seq: 3,
  execId: '1-3',
  kind: 'exec',
  cmd: 'x',
  workdir: '/',
  timeoutMs: undefined,
  startedMs: 1_000,
  killWanted: false,
  stdoutBytes: 0,
  stderrBytes: 0,
  storedBytes: 0,
  process: undefined,
  tag: undefined,
  stdinEnded: false,
  end: undefined,
};

test('every exit code and every signal is reported as a shell does', () => {
  for (let code = 0; code <= 255; code += 1) {
    const end = reportedEnd(outcome({ exitCode: code }), 0, nothing);
    assert.deepEqual([end.exitCode, end.reason, end.signal], [code, 'exited', undefined]);
  }
  for (let signal = 1; signal <= 64; signal += 1) {
    const end = reportedEnd(outcome({ signal }), 0, nothing);
    assert.deepEqual([end.exitCode, end.reason, end.signal], [128 + signal, 'signaled', signal]);
  }
});

test('an exit of 124 is a time-out only where the guest says so', () => {
  assert.equal(reportedEnd(outcome({ exitCode: 124 }), 0, nothing).timedOut, false);
  const end = reportedEnd(outcome({ signal: 15, timedOut: true }), 0, nothing);
  assert.deepEqual([end.exitCode, end.timedOut, end.reason], [124, true, 'timed_out']);
});

test('the reason is what ended the command, not how it looked', () => {
  const killed = outcome({ signal: 9 });
  assert.equal(reportedEnd(killed, 0, { ...nothing, killWanted: true, oomKilled: true }).reason, 'killed');
  assert.equal(reportedEnd(killed, 0, { ...nothing, oomKilled: true }).reason, 'oom_killed');
  assert.equal(reportedEnd(killed, 0, { ...nothing, upperFull: true }).reason, 'upper_full');
  assert.deepEqual(forcedEnd('layers_changed', 5), {
    finishedMs: 5,
    exitCode: 137,
    signal: 9,
    timedOut: false,
    reason: 'layers_changed',
  });
  assert.equal(forcedEnd('timed_out', 5).exitCode, 124);
});

test('a record shows 64 KiB of a stream and says what was longer', () => {
  const end = reportedEnd(outcome({ exitCode: 0 }), 900, nothing);
  const long = Buffer.alloc(70_000, 'a');
  const record = recordOf({ ...row, stdoutBytes: 70_000 }, end, { stdout: long, stderr: Buffer.alloc(0) });
  assert.equal(record.stdout.length, 65_536);
  assert.equal(record.truncated, true);
  // The wall clock was set back while it ran.
  assert.equal(record.duration_ms, 0);
  execRecordSchema.parse(record);
});

test('text that is cut ends with a whole character, text that is not UTF-8 is replaced', () => {
  const euro = Buffer.from('aa€');
  assert.equal(textOf(euro.subarray(0, 3), true), 'aa');
  assert.equal(textOf(euro.subarray(0, 4), true), 'aa');
  assert.equal(textOf(euro, true), 'aa€');
  assert.equal(textOf(Buffer.from([0x61, 0xff, 0x00]), false), 'a\ufffd\0');
  assert.equal(textOf(Buffer.from([0xff]), true), '');
  assert.equal(textOf(Buffer.alloc(0), true), '');
});

test('a job is done when it ended by itself and killed when it was ended', () => {
  assert.equal(jobOf(row).status, 'running');
  const ended = (reason: 'exited' | 'killed' | 'lost'): string =>
    jobOf({ ...row, end: { ...forcedEnd('lost', 1), reason } }).status;
  assert.deepEqual([ended('exited'), ended('killed'), ended('lost')], ['done', 'killed', 'killed']);
});
