/** Whose run begins next: by group, tier, priority and age. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { groupLimits } from '@squash/contract/group-limits';
import { nextTurn } from './queue.ts';

const nowMs = 1_000 * groupLimits.priorityMs;

/** Runs 1, 2, … of these groups, each of the tier that its name begins with; after `@` minutes since it was asked for. */
function waiting(...words: readonly string[]) {
  return words.map((word, index) => {
    const [group = '', minutes = '0'] = word.split('@');
    const createdMs = nowMs - Number(minutes) * groupLimits.priorityMs;
    return { run: index + 1, group, state: 'queued' as const, createdMs, notBeforeMs: 0, sandbox: null };
  });
}

const running = (...groups: readonly string[]) =>
  waiting(...groups).map((row) => ({ ...row, run: -row.run, state: 'running' as const }));

const tiers: Readonly<Record<string, { readonly runs_max: number; readonly priority: number }>> = {
  high: { runs_max: 8, priority: 5 },
  low: { runs_max: 8, priority: 0 },
  one: { runs_max: 1, priority: 9 },
};

function tierOf(group: string) {
  const name = group.split('-')[0] ?? '';
  return { name, ...(tiers[name] ?? { runs_max: 8, priority: 0 }) };
}

const full = running('low-a', 'low-b', 'low-c', 'low-d', 'low-e', 'low-f', 'low-g');
const next = (open: ReturnType<typeof waiting>, rest: readonly (typeof full)[number][] = []) =>
  nextTurn([...rest, ...open], { nowMs, tierOf }).begin;

test('runs of a tier of higher priority begin first, those of one tier by their age', () => {
  assert.deepEqual(next(waiting('low-1', 'high-1', 'high-2', 'low-2')), [2, 3, 1, 4]);
  assert.deepEqual(next(waiting('low-1', 'high-1'), full), [2]);
});

test('a run that waits gains on those of other tiers, and comes', () => {
  assert.deepEqual(next(waiting('low-1@5', 'high-1'), full), [1]);
  assert.deepEqual(next(waiting('low-1@4', 'high-1'), full), [2]);
});

test('a clock that was put back has no run wait behind those that come after it', () => {
  assert.deepEqual(next(waiting('low-1@-90', 'low-2'), full), [1]);
  assert.deepEqual(next(waiting('high-1@-90', 'low-2@4'), full), [1]);
});

test('a group’s own runs keep their order, whatever waits or is to be tried again', () => {
  assert.deepEqual(next(waiting('high-1', 'high-1', 'low-1')), [1, 3]);
  const [first, ...others] = waiting('high-1', 'high-1', 'low-1');
  assert.ok(first !== undefined);
  const later = nextTurn([{ ...first, notBeforeMs: nowMs + 7 }, ...others], { nowMs, tierOf });
  assert.deepEqual(later, { begin: [3], againMs: nowMs + 7 });
  assert.deepEqual(next(waiting('low-a'), full), []);
});

test('no priority is more than a tier has at once, or than all have', () => {
  assert.deepEqual(next(waiting('one-1', 'one-2', 'low-1')), [1, 3]);
  assert.deepEqual(next(waiting('one-1'), [...full, ...running('high-1')]), []);
});
