/** What is kept of a process's output: every byte at its position, through full disks and other daemons. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { StoredProcess } from '#store/rows.ts';
import type { Store } from '#store/store.ts';
import { testStore } from '../../../tests/support/store.ts';
import { OutputBudget } from './output-budget.ts';
import { ProcessRecorder } from './process-recorder.ts';

const write = fc.record({
  stream: fc.constantFrom('stdout' as const, 'stderr' as const),
  bytes: fc.integer({ min: 1, max: 9_000 }),
  next: fc.constantFrom('nothing' as const, 'flush' as const, 'restart' as const),
});

test('a recorder keeps the end or the beginning, each byte at its position, through flushes and daemons', () => {
  using file = testStore();
  const cases = fc.record({
    writes: fc.array(write, { maxLength: 40 }),
    max: fc.integer({ min: 0, max: 30_000 }),
    keep: fc.constantFrom('head' as const, 'tail' as const),
  });
  fc.assert(
    fc.property(cases, ({ writes, max, keep }) => {
      const how: StoredProcess = {
        argv: null,
        uid: 0,
        gid: 0,
        pty: false,
        isBackground: true,
        stdin: 'none',
        outputBytesMax: max,
        keep,
      };
      const { store, id } = file;
      let row = begin(store, id, how);
      const parts = { store, sandbox: id, budget: new OutputBudget() };
      let recorder = new ProcessRecorder(parts, row, how);
      let whole = Buffer.alloc(0);
      for (const { stream, bytes, next } of writes) {
        const data = Buffer.from(Array.from({ length: bytes }, (_, index) => (whole.length + index) % 251));
        recorder.take(stream, data);
        whole = Buffer.concat([whole, data]);
        if (next === 'nothing') continue;
        recorder.flush();
        if (next === 'flush') continue;
        row = store.execs.get(id, row.seq) ?? row;
        recorder = new ProcessRecorder(parts, row, how);
      }
      recorder.finish({ finishedMs: 2, exitCode: 0, signal: undefined, timedOut: false, reason: 'exited' });
      const pieces = store.processOutput.read(row.key, 0, Number.MAX_SAFE_INTEGER);
      let at = pieces[0]?.position ?? whole.length;
      for (const { position, data } of pieces) {
        assert.equal(position, at);
        assert.ok(data.equals(whole.subarray(at, at + data.length)));
        at += data.length;
      }
      const kept = pieces.reduce((sum, { data }) => sum + data.length, 0);
      if (keep === 'head') {
        assert.equal(kept, Math.min(max, whole.length));
        assert.equal(pieces[0]?.position ?? 0, 0);
      } else {
        assert.ok(kept >= Math.min(max, whole.length));
        assert.ok(kept <= 2 * max + 9_000);
        assert.equal(max === 0 ? whole.length : at, whole.length);
      }
      for (const after of [0, 1, Math.floor(whole.length / 2), whole.length]) {
        const rest = store.processOutput.read(row.key, after, Number.MAX_SAFE_INTEGER);
        const from = Math.max(after, pieces[0]?.position ?? at);
        assert.ok(
          Buffer.concat(rest.map(({ data }) => data)).equals(whole.subarray(from, Math.max(from, at))),
        );
      }
      assert.equal(store.execs.get(id, row.seq)?.storedBytes, kept);
    }),
    { numRuns: 60 },
  );
});

test('one process of many keeps the least when the sum is used up, and the sum shrinks when they end', () => {
  using file = testStore();
  const { store, id } = file;
  const how: StoredProcess = {
    argv: null,
    uid: 0,
    gid: 0,
    pty: false,
    isBackground: true,
    stdin: 'none',
    outputBytesMax: 4_194_304,
    keep: 'tail',
  };
  const budget = new OutputBudget();
  const recorders = Array.from({ length: 20 }, () => {
    const row = begin(store, id, how);
    return { row, recorder: new ProcessRecorder({ store, sandbox: id, budget }, row, how) };
  });
  for (const { recorder } of recorders) {
    for (let written = 0; written < 4_194_304; written += 32_768) {
      recorder.take('stdout', Buffer.alloc(32_768));
      recorder.flush();
    }
  }
  const last = recorders.at(-1)?.row.key ?? 0;
  assert.ok(store.processOutput.kept(last).bytes < 200_000);
  for (const { recorder } of recorders)
    recorder.finish({ finishedMs: 2, exitCode: 0, signal: undefined, timedOut: false, reason: 'exited' });
  assert.equal(budget.allowed(id, 4_194_304), 4_194_304);
});

function begin(store: Store, id: Parameters<Store['execs']['begin']>[0], process: StoredProcess) {
  return store.transaction(() =>
    store.execs.begin(id, {
      kind: 'process',
      cmd: 'true',
      workdir: '/',
      timeoutMs: undefined,
      startedMs: 1,
      instance: 1,
      process,
    }),
  );
}
