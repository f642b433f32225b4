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
    turns.take('one', async () => {
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

test('who gives up while he waits is not kept, and takes nobody’s turn', async () => {
  const turns = new StartTurns();
  const free = new AbortController();
  const busy = Array.from({ length: availableParallelism() }, async () =>
    turns.take('one', async () => new Promise((resolve) => free.signal.addEventListener('abort', resolve))),
  );
  const gone = new AbortController();
  const waits = [gone.signal, AbortSignal.abort(new Error('gave up'))].map((signal) =>
    assert.rejects(
      turns.take('one', () => assert.fail('it ran'), signal),
      /gave up/,
    ),
  );
  let ran = 0;
  const behind = busy.map(() => turns.take('one', async () => (ran += 1)));
  gone.abort(new Error('gave up'));
  // Before anybody's turn is over.
  await Promise.all(waits);
  assert.equal(ran, 0);
  free.abort();
  await Promise.all([...busy, ...behind]);
  assert.equal(ran, busy.length);
});

test('who has the fewest under way is next, of these who waits longest, and alone an owner has all turns', async () => {
  const turns = new StartTurns();
  const places = availableParallelism();
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const ask = (owner: string): Promise<void> =>
    turns.take(owner, async () => {
      begun.push(owner);
      await new Promise<void>((resolve) => ends.push(resolve));
    });
  const all = [...Array<string>(places + 3).fill('many'), 'some', 'some', 'one'].map(ask);
  await turn();
  assert.deepEqual(begun, Array(places).fill('many'));
  for (const [at] of all.entries()) {
    ends[at]?.();
    await turn();
  }
  await Promise.all(all);
  const waited = begun.slice(places);
  // With one place or with many; in the order in which they came it would be the last.
  assert.ok(waited.indexOf('one') <= 2, waited.join());
  assert.equal(waited.at(-1), 'many');
});
