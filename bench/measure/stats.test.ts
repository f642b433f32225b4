/** The three figures of a table's row, on samples whose answers are known. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quantile, summarise } from './stats.ts';

test('summary of one sample is that sample', () => {
  assert.deepEqual(summarise([7]), { count: 1, min: 7, median: 7, p95: 7 });
});

test('p95 is the nearest rank, so that it is a value that was measured', () => {
  const samples = Array.from({ length: 100 }, (_, index) => 100 - index);
  assert.deepEqual(summarise(samples), { count: 100, min: 1, median: 50, p95: 95 });
});

test('quantile of nothing throws rather than inventing a figure', () => {
  assert.throws(() => quantile([], 0.5), RangeError);
});
