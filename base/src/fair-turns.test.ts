/** Nobody waits for more than their turn, and no place is lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FairTurns } from './fair-turns.ts';

test('who wants one place gets it next, however many another one wants', () => {
  const turns = new FairTurns({ all: 3, each: 2 });
  const begun: string[] = [];
  for (let at = 0; at < 100; at += 1) turns.take('loud', () => void begun.push(`loud ${at}`));
  turns.take('quiet', () => void begun.push('quiet'));
  turns.take('late', () => void begun.push('late'));
  assert.deepEqual(begun, ['loud 0', 'loud 1', 'quiet']);
  turns.done('loud');
  assert.deepEqual(begun.slice(3), ['late']);
  turns.done('late');
  assert.deepEqual(begun.slice(4), []);
  turns.done('loud');
  assert.deepEqual(begun.slice(4), ['loud 2']);
});

test('who comes next finds a place at once, however many others hold theirs for long', () => {
  const turns = new FairTurns({ all: 512, each: 256 });
  const begun = new Map<string, number>();
  const take = (who: string): void => turns.take(who, () => void begun.set(who, (begun.get(who) ?? 0) + 1));
  for (const loud of ['a', 'b', 'c']) for (let at = 0; at < 1_000; at += 1) take(loud);
  assert.deepEqual([...begun.values()], [256, 128, 64]);
  take('quiet');
  assert.equal(begun.get('quiet'), 1);
});

test('who gives up waiting is out of the line, and whose turn has come keeps its place until it is done', () => {
  const turns = new FairTurns({ all: 3, each: 1 });
  const begun: string[] = [];
  const begin = (what: string) => () => void begun.push(what);
  const [first, second, third] = [begin('first'), begin('second'), begin('third')];
  for (const each of [first, second, third]) turns.take('one', each);
  turns.leave('one', second);
  turns.leave('one', first);
  assert.deepEqual(begun, ['first']);
  turns.done('one');
  assert.deepEqual(begun, ['first', 'third']);
  turns.take('one', second);
  turns.leave('one', second);
  turns.done('one');
  assert.deepEqual(begun, ['first', 'third']);
  turns.take('one', second);
  assert.deepEqual(begun, ['first', 'third', 'second']);
});

test('places are never more than there are, and all who wait get one', () => {
  const who = fc.constantFrom('a', 'b', 'c');
  fc.assert(
    fc.property(fc.array(who, { maxLength: 60 }), fc.nat(5), fc.nat(3), (wishes, all, each) => {
      const turns = new FairTurns({ all: all + 1, each: each + 1 });
      const holding: string[] = [];
      let begun = 0;
      const check = (): void => {
        assert.ok(holding.length <= all + 1);
        for (const one of ['a', 'b', 'c'])
          assert.ok(holding.filter((held) => held === one).length <= each + 1);
      };
      for (const wish of wishes) {
        turns.take(wish, () => {
          begun += 1;
          holding.push(wish);
        });
        check();
      }
      for (let next = holding.shift(); next !== undefined; next = holding.shift()) {
        turns.done(next);
        check();
      }
      assert.equal(begun, wishes.length);
    }),
  );
});
