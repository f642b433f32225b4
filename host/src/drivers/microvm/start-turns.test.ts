/** Boots that wait for each other. */
import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { StartTurns } from './start-turns.ts';

test('as many run at once as there are processors, in their order, and a failure gives its turn on', async () => {
  const turns = new StartTurns();
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const all = Array.from({ length: availableParallelism() + 3 }, async (_, at) =>
    turns.take(async () => {
      begun.push(at);
      await new Promise<void>((resolve) => ends.push(resolve));
      if (at === 0) throw new Error('the first fails');
    }),
  );
  const failed = assert.rejects(all[0] ?? Promise.resolve(), /the first fails/);
  for (const [at] of all.entries()) {
    await turn();
    assert.deepEqual(begun, [...Array(Math.min(all.length, at + availableParallelism())).keys()]);
    ends[at]?.();
  }
  await Promise.allSettled(all);
  await failed;
});

test('who gives up while he waits does nothing in his turn', async () => {
  const turns = new StartTurns();
  const free = new AbortController();
  const busy = Array.from({ length: availableParallelism() }, async () =>
    turns.take(async () => new Promise((resolve) => free.signal.addEventListener('abort', resolve))),
  );
  const gone = AbortSignal.abort(new Error('gave up'));
  const waits = assert.rejects(
    turns.take(() => assert.fail('it ran'), gone),
    /gave up/,
  );
  free.abort();
  await Promise.all([...busy, waits]);
});
