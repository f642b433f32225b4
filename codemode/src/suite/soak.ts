/**
 * Many mixed runs on one executor: what this process holds at the end is what it held early on, and no descriptor and no process is
 * left. Short by itself; with `squash test --long` ten thousand runs; SOAK_RUNS says another number.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ExecutorName, ExecutorOptions } from '../executors.ts';
import { executorOf } from './executor-of.ts';

const isLong = process.env['TEST_LONG'] === '1';
const asked = process.env['SOAK_RUNS'];

/** Two, so that a run meets a worker that another has just left, and runs beside another. */
const runsAtOnce = 2;

const programs = [
  'return 1 + 1',
  'return await codemode.echo({ a: [1, 2n, new Date(0)] })',
  'throw new TypeError("x")',
  'for (let i = 0; i < 50; i++) console.log("line", i, { i })',
  'return (',
  'return await Promise.all([1, 2, 3].map((x) => codemode.echo(x)))',
  'const m = new Map(); for (let i = 0; i < 1000; i++) m.set(i, "x".repeat(i)); return m.size',
];
const kinds = [undefined, undefined, 'runtime', undefined, 'syntax', undefined, undefined];

/** @param shortRuns of an ordinary test run: fewer where each run takes a process of its own */
export function soak(name: ExecutorName, shortRuns: number, given: ExecutorOptions = {}): void {
  const runs = asked === undefined ? (isLong ? 10_000 : shortRuns) : Number(asked);
  const settled = Math.max(10, Math.floor(runs / 10));
  const options = { ...given, limits: { memoryMb: 32 }, spares: runsAtOnce };
  test(`${runs} runs on ${name} leave nothing behind`, async (t) => {
    fillYoungGeneration();
    // What the first run opens for good (the loop's descriptors, loaded code) is no leak.
    await runMany({ name, options, runs: runsAtOnce, before: async () => {} });
    const before = held();
    let early = { rss: 0, heap: 0 };
    await runMany({
      name,
      options,
      runs,
      before: async (run) => {
        if (run === settled) early = await settledMemory();
      },
    });
    const after = held();
    const late = await settledMemory();
    t.diagnostic(
      `${name}: RSS ${megabytes(early.rss)} after ${settled} runs, ${megabytes(late.rss)} after ${runs}; ` +
        `heap ${megabytes(early.heap)} and ${megabytes(late.heap)}; ` +
        `descriptors ${before.descriptors} and ${after.descriptors}, processes ${before.processes} and ${after.processes}`,
    );
    // Fewer where something of the test's own has ended meanwhile.
    assert.ok(after.descriptors <= before.descriptors, `${after.descriptors} descriptors`);
    assert.ok(after.processes <= before.processes, `${after.processes} processes`);
    // A short run has not reached its level yet: there only a leak of whole results would show.
    const growth = runs >= 10_000 ? 1.1 : 1.5;
    assert.ok(
      late.rss <= early.rss * growth,
      `${late.rss} bytes at the end, ${early.rss} after ${settled} runs`,
    );
    assert.ok(
      late.heap <= early.heap * growth,
      `a heap of ${late.heap} bytes, ${early.heap} after ${settled} runs`,
    );
  });
}

interface Stretch {
  readonly name: ExecutorName;
  readonly options: ExecutorOptions;
  readonly runs: number;
  readonly before: (run: number) => Promise<void>;
}

async function runMany({ name, options, runs, before }: Stretch): Promise<void> {
  await using executor = executorOf(name, options);
  let next = 0;
  const lane = async () => {
    while (next < runs) {
      const run = next;
      next += 1;
      await before(run);
      const { errorInfo } = await executor.execute(programs[run % programs.length] ?? '', {
        echo: (x) => x,
      });
      assert.equal(errorInfo?.kind, kinds[run % kinds.length], `run ${run}: ${errorInfo?.message}`);
    }
  };
  await Promise.all(Array.from({ length: runsAtOnce }, lane));
  await executor.dispose();
  assert.equal(executor.processes, 0);
}

/** Of this process: what it has open, and its children. */
function held(): { readonly descriptors: number; readonly processes: number } {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'latin1').trim();
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    processes: children === '' ? 0 : children.split(' ').length,
  };
}

/**
 * One collection is not enough: where marking had begun already, what has died since is kept, and what waits for a finalizer goes only in the
 * collection after it.
 */
async function settledMemory(): Promise<{ readonly rss: number; readonly heap: number }> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let round = 0; round < 4; round += 1) {
    collect();
    await setImmediate();
  }
  collect();
  const { rss, heapUsed } = process.memoryUsage();
  return { rss, heap: heapUsed };
}

/**
 * V8's young generation grows by tens of megabytes with the work, some thousand runs into it. At its full size from the start, what RSS shows
 * later is what the runs left.
 */
function fillYoungGeneration(): void {
  let kept: readonly object[] = [];
  for (let round = 0; round < 100; round += 1)
    kept = Array.from({ length: 100_000 }, (_, at) => ({ at, before: kept.length }));
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_048_576).toFixed(1)} MB`;
}
