/** Whose upper a power cut may have taken. What is then done is tested in `tests/faults/lost-upper.test.ts`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sandboxIdSchema } from '@squash/contract/ids';
import { freshUppers } from './upper-loss.ts';

const row = (id: string, upperMadeMs: number, lastActiveMs: number) => ({
  id: sandboxIdSchema.parse(id),
  upperMadeMs,
  lastActiveMs,
});
const hourMs = 3_600_000;

test('an upper counts as fresh by when it was made, however lately its sandbox was used', () => {
  const rows = [row('old', 0, 10 * hourMs), row('new', 10 * hourMs - 20_000, 10 * hourMs - 20_000)];
  assert.deepEqual([...freshUppers(rows, 11 * hourMs)], ['new']);
  assert.deepEqual([...freshUppers(rows.slice(0, 1), 11 * hourMs)], []);
});

test('a use that a clock ahead has put on record makes no upper old', () => {
  const rows = [row('ahead', 0, 99 * hourMs), row('new', 10 * hourMs, 10 * hourMs)];
  assert.deepEqual([...freshUppers(rows, 10 * hourMs + 1_000)], ['new']);
  assert.deepEqual([...freshUppers([], 0)], []);
});
