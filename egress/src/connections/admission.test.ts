/** A rate is kept, in order, and what was stopped never begins. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '../../../tests/support/wait.ts';
import { Admission } from './admission.ts';

test('what comes faster than the rate begins later and in order', async () => {
  // Stands still until all of them wait, however long that takes.
  let clock = () => 0;
  const admission = new Admission({ perS: 100, burst: 2 }, () => clock());
  const begun: number[] = [];
  for (let at = 0; at < 5; at += 1) admission.admit(() => void begun.push(at));
  assert.deepEqual(begun, [0, 1]);
  clock = () => performance.now();
  await waitFor('all to begin', () => begun.length === 5);
  assert.deepEqual(begun, [0, 1, 2, 3, 4]);
});

test('what waits never begins when it is stopped', () => {
  const admission = new Admission({ perS: 0.001, burst: 1 }, () => performance.now());
  const begun: number[] = [];
  for (let at = 0; at < 3; at += 1) admission.admit(() => void begun.push(at));
  admission.stop();
  admission.admit(() => void begun.push(3));
  admission.stop();
  assert.deepEqual(begun, [0]);
});

test('what has left neither begins nor takes a turn', async () => {
  let clock = () => 0;
  const admission = new Admission({ perS: 100, burst: 1 }, () => clock());
  const begun: string[] = [];
  admission.admit(() => void begun.push('first'));
  const given = Array.from({ length: 10_000 }, () => () => void begun.push('given up'));
  for (const begin of given) admission.admit(begin);
  admission.admit(() => void begun.push('last'));
  for (const begin of given) admission.leave(begin);
  clock = () => performance.now();
  // At a hundred a second they would have been before it for minutes.
  await waitFor('the last', () => begun.length === 2);
  assert.deepEqual(begun, ['first', 'last']);
});
