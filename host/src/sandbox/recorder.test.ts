/** What is kept of a command's output, what is counted, and what may be acknowledged. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '@squash/contract/limits';
import fc from 'fast-check';
import { needsRoot, smallDisk } from '../../../tests/support/small-disk.ts';
import { testStore, type TestStore } from '../../../tests/support/store.ts';
import type { ExecKind, ExecRow } from '#store/rows.ts';
import { LineRecorder } from './line-recorder.ts';
import { HeadRecorder } from './recorder.ts';

const end = { finishedMs: 9, exitCode: 0, signal: undefined, timedOut: false, reason: 'exited' } as const;

function begin({ store, id }: TestStore, kind: ExecKind): ExecRow {
  const exec = { kind, cmd: 'x', workdir: '/', timeoutMs: undefined, startedMs: 1, instance: 1 };
  return store.transaction(() => store.execs.begin(id, exec));
}

test('an exec keeps its first MiB per stream, shows 64 KiB and counts all', () => {
  using file = testStore();
  const row = begin(file, 'exec');
  const recorder = new HeadRecorder(file.store, row);
  const piece = Buffer.alloc(300_000, 'x');
  for (let count = 0; count < 5; count += 1) {
    recorder.take('stdout', piece);
    assert.deepEqual(recorder.flush(), { stdout: piece.length * (count + 1), stderr: 0 });
  }
  recorder.finish(end);
  assert.equal(file.store.output.read(row.key, 'stdout', 10_000_000).length, limits.storedStreamBytesMax);
  assert.equal(recorder.head('stdout').length, limits.answerStreamBytesMax);
  assert.equal(file.store.execs.get(file.id, 1)?.stdoutBytes, 1_500_000);
});

test('a recorder that takes over goes on where the stored offsets stand', () => {
  using file = testStore();
  const first = new HeadRecorder(file.store, begin(file, 'exec'));
  first.take('stdout', Buffer.from('ab'));
  first.take('stderr', Buffer.from('!'));
  first.flush();
  const row = file.store.execs.unfinished(file.id)[0];
  assert.ok(row);
  const second = new HeadRecorder(file.store, row);
  assert.deepEqual(second.rewind(), { stdout: 2, stderr: 1 });
  second.take('stdout', Buffer.from('cd'));
  second.finish(end);
  assert.equal(second.head('stdout').toString(), 'abcd');
  assert.equal(file.store.output.read(row.key, 'stdout', 10).toString(), 'abcd');
});

test('a full disk leaves everything to the next try', { skip: needsRoot }, () => {
  using disk = smallDisk(4_000_000);
  using file = testStore('dev', disk.path);
  const { store } = file;
  for (const kind of ['exec', 'job'] as const) {
    const row = begin(file, kind);
    const recorder = kind === 'job' ? new LineRecorder(store, row) : new HeadRecorder(store, row);
    const text = `one\n${'x'.repeat(30_000)}\n`.repeat(20);
    recorder.take('stdout', Buffer.from(text));
    disk.fill();
    assert.throws(() => recorder.flush(), { code: 'disk_full' });
    disk.free();
    assert.deepEqual(recorder.flush(), { stdout: text.length, stderr: 0 });
    recorder.finish(end);
    assert.equal(recorder.head('stdout').toString(), text.slice(0, limits.answerStreamBytesMax), kind);
  }
});

test('a job stores whole lines, and its guest keeps the rest', () => {
  using file = testStore();
  const row = begin(file, 'job');
  const recorder = new LineRecorder(file.store, row);
  recorder.take('stdout', Buffer.from('a\nb'));
  recorder.take('stderr', Buffer.from('E\n'));
  assert.deepEqual(recorder.flush(), { stdout: 2, stderr: 2 });
  assert.deepEqual(recorder.rewind(), { stdout: 2, stderr: 2 });
  recorder.take('stdout', Buffer.from('bc\n\nlast'));
  recorder.finish(end);
  const lines = file.store.output
    .lines(row.key, 0, 10)
    .map(({ number, stream, data }) => [number, stream, data.toString()]);
  assert.deepEqual(lines, [
    [1, 'stdout', 'a\n'],
    [2, 'stderr', 'E\n'],
    [3, 'stdout', 'bc\n'],
    [4, 'stdout', '\n'],
    [5, 'stdout', 'last'],
  ]);
  assert.equal(file.store.execs.get(file.id, 1)?.stdoutBytes, 10);
});

test('a line without an end is cut, so that the guest always gets room', () => {
  using file = testStore();
  const row = begin(file, 'job');
  const recorder = new LineRecorder(file.store, row);
  recorder.take('stdout', Buffer.alloc(limits.jobLineBytesMax * 2 + 5, 'x'));
  assert.deepEqual(recorder.flush(), { stdout: limits.jobLineBytesMax * 2, stderr: 0 });
  assert.equal(file.store.output.lines(row.key, 0, 10).length, 2);
});

test('a job log keeps its end within its bounds, and numbers go on', () => {
  using file = testStore();
  const row = begin(file, 'job');
  const recorder = new LineRecorder(file.store, row);
  const line = Buffer.from(`${'y'.repeat(1_023)}\n`);
  const count = (limits.jobLogBytesMax / line.length) * 2;
  for (let written = 0; written < count; written += 1) {
    recorder.take('stdout', line);
    if (written % 64 === 63) recorder.flush();
  }
  recorder.finish(end);
  const span = file.store.output.lineSpan(row.key);
  assert.equal(span.last, count);
  assert.ok(span.bytes <= limits.jobLogBytesMax && span.bytes > limits.jobLogBytesMax / 2);
  const short = new LineRecorder(file.store, begin(file, 'job'));
  short.take('stdout', Buffer.alloc(limits.jobLogLinesMax + 10, '\n'));
  short.finish(end);
  const shortSpan = file.store.output.lineSpan(row.key + 1);
  assert.equal(shortSpan.last, limits.jobLogLinesMax + 10);
  assert.ok(shortSpan.last - shortSpan.first < limits.jobLogLinesMax);
});

test('lines and numbers are the same however the output is cut and wherever a daemon is replaced', () => {
  const text = fc.array(fc.constantFrom('a', 'bb', '\n', 'c\nd'), { maxLength: 40 });
  fc.assert(
    fc.property(text, fc.array(fc.nat(3), { maxLength: 40 }), (parts, acts) => {
      using file = testStore();
      const whole = Buffer.from(parts.join(''));
      const row = begin(file, 'job');
      let recorder = new LineRecorder(file.store, row);
      let at = 0;
      for (const act of acts) {
        if (act === 0) recorder.flush();
        else if (act === 1) {
          // The daemon dies: what was not stored comes again.
          const stored = file.store.execs.unfinished(file.id)[0];
          assert.ok(stored);
          recorder = new LineRecorder(file.store, stored);
          at = recorder.rewind().stdout;
        } else {
          recorder.take('stdout', whole.subarray(at, at + act));
          at = Math.min(whole.length, at + act);
        }
      }
      recorder.take('stdout', whole.subarray(at));
      recorder.finish(end);
      const lines = file.store.output.lines(row.key, 0, 1_000);
      assert.equal(Buffer.concat(lines.map(({ data }) => data)).toString(), whole.toString());
      assert.deepEqual(
        lines.map(({ data }) => data.toString()),
        whole.toString().match(/[^\n]*\n|[^\n]+$/g) ?? [],
      );
      assert.deepEqual(
        lines.map(({ number }) => number),
        lines.map((_, index) => index + 1),
      );
    }),
    { numRuns: 30 },
  );
});
