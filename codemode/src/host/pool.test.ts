/** Workers between two runs. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { describe, it } from 'node:test';
import { waitFor } from '../../../tests/support/wait.ts';
import { CodemodeError } from '../errors.ts';
import { PooledExecutor } from '../executor.ts';
import { defaultLimits } from '../limits.ts';
import { childPlace } from '../places/child.ts';
import type { Place } from '../places/place.ts';
import { nodeCommand } from '../places/programs.ts';
import type { ExecuteResult } from '../types.ts';
import { msUntilStart } from './demand.ts';
import type { PoolOptions } from './pool.ts';

it('a program that awaits one run after the other comes to its end, and needs no dispose to end', async () => {
  const program = `import { createExecutor } from ${JSON.stringify(new URL('../executors.ts', import.meta.url).href)};
const executor = createExecutor('quickjs', { spares: 0 });
for (let run = 0; run < 4; run += 1) console.log((await executor.execute('return ' + run)).result);`;
  const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (text: Buffer) => {
    said += text.toString();
  });
  const [code] = await once(child, 'close');
  assert.deepEqual([said, code], ['0\n1\n2\n3\n', 0]);
});

/** Engines of real children, whose starts the test looks at and holds up. */
function watched(start: (begin: Place['start'], number: number) => ReturnType<Place['start']>) {
  const children = childPlace(nodeCommand('quickjs', 32));
  let starts = 0;
  return (pool: Pick<PoolOptions, 'spares' | 'workersMax' | 'runsPerWorker' | 'placeMsMax'>) =>
    new PooledExecutor(
      {
        start() {
          starts += 1;
          return start(() => children.start(), starts);
        },
      },
      {
        name: 'watched',
        engine: 'quickjs',
        logStyle: 'bridge',
        memoryMb: 32,
        startMsMax: 30_000,
        limits: { ...defaultLimits, memoryMb: 32 },
        ...pool,
      },
    );
}

const oneAtATime = { spares: 0, workersMax: 1, runsPerWorker: 100 };

describe('a run that waits for a worker', () => {
  it('gets one when the run before it was aborted during the start', async () => {
    const begun = Promise.withResolvers<void>();
    await using executor = watched(async (begin) => {
      begun.resolve();
      return await begin();
    })(oneAtATime);
    const stop = new AbortController();
    const first = executor.execute('return 1', {}, { signal: stop.signal });
    const second = executor.execute('return 2');
    await begun.promise;
    stop.abort();
    assert.equal((await first).errorInfo?.kind, 'aborted');
    assert.equal((await second).result, 2);
  });

  it('gets one when the start for the run before it failed, and hears of a failure of its own', async () => {
    await using executor = watched(async (begin, number) => {
      if (number % 2 === 1) throw new CodemodeError('unavailable', 'no room');
      return await begin();
    })({ ...oneAtATime, runsPerWorker: 1 });
    const runs = await Promise.all(
      [1, 2, 3, 4].map((input) => executor.execute('return input', {}, { input })),
    );
    assert.deepEqual(runs.map(outcomeOf), ['unavailable', 2, 'unavailable', 4]);
  });

  it('gets one when the place of the run before it never answers', async () => {
    await using executor = watched(async (begin, number) => {
      if (number === 1) await new Promise<never>(() => {});
      return await begin();
    })({ ...oneAtATime, placeMsMax: 500 });
    const runs = await Promise.all([1, 2].map((input) => executor.execute('return input', {}, { input })));
    assert.deepEqual(runs.map(outcomeOf), ['unavailable', 2]);
  });

  it('gets one that is free again while no other comes up', async () => {
    const never = Promise.withResolvers<void>();
    let held = 0;
    const executor = watched(async (begin, number) => {
      if (number > 1) {
        held += 1;
        await never.promise;
      }
      return await begin();
    })({ spares: 0, workersMax: 16, runsPerWorker: 100 });
    await executor.execute('return 0');
    const runs = await Promise.all(
      Array.from({ length: 16 }, (_, input) => executor.execute('return input', {}, { input })),
    );
    assert.deepEqual(
      runs.map(outcomeOf),
      Array.from({ length: 16 }, (_, input) => input),
    );
    assert.ok(held <= availableParallelism(), `${held} starts at once`);
    never.resolve();
    await executor.dispose();
    assert.equal(executor.processes, 0);
  });
});

function outcomeOf({ result, errorInfo }: ExecuteResult): unknown {
  return errorInfo?.kind ?? result;
}

it('workers that serve once are kept waiting in the number that was used at once', async () => {
  await using executor = watched((begin) => begin())({ spares: 1, workersMax: 4, runsPerWorker: 1 });
  await executor.execute('return 1');
  await waitFor('one that waits', () => executor.idle === 1);
  await Promise.all([1, 2, 3].map((input) => executor.execute('return input', {}, { input })));
  await waitFor('three that wait', () => executor.idle === 3);
  const runs = await Promise.all([1, 2, 3].map(() => executor.execute('return 1')));
  assert.deepEqual(
    runs.map(({ stats }) => stats.warm),
    [true, true, true],
  );
});

it('msUntilStart() starts where waiting costs more, and never more at once than there are processors', () => {
  const quiet = { waiting: 0, idle: 0, starting: 0, busyMs: [], spares: 0, room: 8 };
  const known = { ...quiet, turnMs: 5, startMs: 200, servesOnce: false };
  const ask = (more: Partial<typeof known> | { readonly busyMs: readonly number[] }) =>
    msUntilStart({ ...known, ...more });
  assert.equal(ask({}), Number.POSITIVE_INFINITY);
  assert.equal(ask({ waiting: 1 }), 0);
  assert.equal(ask({ waiting: 1, room: 0 }), Number.POSITIVE_INFINITY);
  // Fourteen turns of 5 ms on two workers are over before a third would be there.
  assert.ok(ask({ waiting: 14, busyMs: [1, 1] }) > 20);
  assert.equal(ask({ waiting: 14, busyMs: [1, 1], turnMs: 100 }), 0);
  // Nobody knows how long they take, but they have taken long.
  assert.equal(ask({ waiting: 1, busyMs: [250], turnMs: 0 }), 0);
  assert.equal(ask({ waiting: 1, busyMs: [50], turnMs: 0 }), 150);
  assert.equal(ask({ spares: 1, busyMs: [50] }), 150);
  assert.equal(
    ask({ waiting: 100, servesOnce: true, starting: availableParallelism() }),
    Number.POSITIVE_INFINITY,
  );
  assert.equal(ask({ waiting: 1, servesOnce: true, busyMs: [1] }), 0);
});
