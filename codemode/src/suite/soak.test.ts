/**
 * Many mixed runs on each engine: what this process holds at the end is what it held early on, and no descriptor or process is left. Short
 * here; with `squash test --long` ten thousand runs where an engine's process serves many, fewer where each run takes a process of its own;
 * SOAK_RUNS says another number for all.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { createExecutor, type ExecutorName } from '../executors.ts';

const isLong = process.env['TEST_LONG'] === '1';
const asked = process.env['SOAK_RUNS'];

function plan(name: ExecutorName, short: number, long: number) {
  const runs = asked === undefined ? (isLong ? long : short) : Number(asked);
  return { name, runs, settled: Math.max(10, Math.floor(runs / 10)) };
}

const plans = [
  plan('quickjs', 300, 10_000),
  plan('isolated-vm', 300, 10_000),
  plan('deno', 40, 1000),
  plan('vm2', 20, 300),
];

const programs = [
  'return 1 + 1',
  'return await codemode.echo({ a: [1, 2n, new Date(0)] })',
  'throw new TypeError("x")',
  'for (let i = 0; i < 50; i++) console.log("line", i, { i })',
  'return (',
  'return await Promise.all([1, 2, 3].map((x) => codemode.echo(x)))',
  'const m = new Map(); for (let i = 0; i < 1000; i++) m.set(i, "x".repeat(i)); return m.size',
];

function settledRss(): number {
  globalThis.gc?.();
  return process.memoryUsage().rss;
}

for (const { name, runs, settled } of plans) {
  test(`${runs} runs on ${name} leave nothing behind`, async () => {
    const descriptors = readdirSync('/proc/self/fd').length;
    const executor = createExecutor(name, { limits: { memoryMb: 32 }, allowWeakIsolation: true });
    let early = 0;
    for (let run = 0; run < runs; run += 1) {
      if (run === settled) early = settledRss();
      const { stats } = await executor.execute(programs[run % programs.length] ?? '', { echo: (x) => x });
      assert.ok(stats.wallMs < 25_000);
    }
    const late = settledRss();
    await executor.dispose();
    // A short run has not reached its level yet: there only a leak of whole results would show.
    assert.ok(
      late <= early * (isLong ? 1.1 : 1.5),
      `${late} bytes at the end, ${early} after ${settled} runs`,
    );
    assert.equal(executor.processes, 0);
    assert.ok(readdirSync('/proc/self/fd').length <= descriptors + 1);
  });
}
