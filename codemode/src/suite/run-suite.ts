/**
 * Runs the rows of the suite on one executor. After each row the same executor must still answer, and at the end nothing of it may be
 * left.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ExecutorName, ExecutorOptions } from '../executors.ts';
import type { PooledExecutor } from '../executor.ts';
import { defaultLimits } from '../limits.ts';
import { type Case, patience } from './case.ts';
import { familyOf, type Groups, sampleFor } from './sample.ts';
import { executorOf } from './executor-of.ts';

/** In the environment of the host and in its arguments; no run may ever show it. */
export const canary = 'canary-7f3a9c';

export function runSuite(name: ExecutorName, groups: Groups, options: ExecutorOptions = {}): void {
  const sample = sampleFor(name, groups);
  describe(name, () => {
    let executor: PooledExecutor;
    before(async () => {
      process.env['CODEMODE_CANARY'] = canary;
      const limits = {
        memoryMb: 64,
        wallMs: defaultLimits.wallMs * patience,
        cpuMs: defaultLimits.cpuMs * patience,
      };
      executor = executorOf(name, { limits, ...options });
      await executor.init();
    });
    after(async () => {
      await executor.dispose();
      assert.equal(executor.processes, 0);
    });
    test('the rows that run hold every family of rows, and every row that names this executor', (t) => {
      const [run, all] = [sample, groups].map((each) => Object.values(each).flat());
      t.diagnostic(`${name}: ${run?.length} of ${all?.length} rows`);
      assert.deepEqual(new Set(run?.map(familyOf)), new Set(all?.map(familyOf)));
      const named = (rows?: readonly Case[]) => rows?.filter(({ differs }) => differs?.executor === name);
      assert.deepEqual(named(run), named(all));
    });
    for (const [group, cases] of Object.entries(sample)) {
      for (const one of cases) test(`${group}: ${one.name}`, () => runCase(executor, one));
    }
  });
}

async function runCase(executor: PooledExecutor, one: Case): Promise<void> {
  const given = await executor.execute(one.code, one.tools?.(), one.options?.());
  const expect = one.differs?.executor === executor.name ? one.differs.expect : one.expect;
  expect(given);
  const shown = JSON.stringify(
    [given.error, given.errorInfo, given.logs, given.warnings],
    (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value),
  );
  assert.doesNotMatch(shown, new RegExp(`${canary}|file:|${import.meta.dirname}|node_modules`));
  const next = await executor.execute('return 1 + 1');
  assert.deepEqual([next.error, next.result], [undefined, 2], `the next run after "${one.name}"`);
}
