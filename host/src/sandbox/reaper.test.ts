/** Lifetimes: who is reaped at a look, and when no timer is set. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sandboxIdSchema } from '@squash/contract/ids';
import { Reaper, timeLeftMs } from './reaper.ts';

test('a sandbox is reaped when its time is over, one without an end never', () => {
  let nowMs = 0;
  const reaped: string[] = [];
  const rows = [
    { id: sandboxIdSchema.parse('short'), bornMs: 0, maxLifetimeS: 5 },
    { id: sandboxIdSchema.parse('long'), bornMs: 0, maxLifetimeS: 50 },
    { id: sandboxIdSchema.parse('endless'), bornMs: 0, maxLifetimeS: 0 },
  ];
  using reaper = new Reaper({ nowMs: () => nowMs, rows: () => rows, reap: (id) => reaped.push(id) });
  reaper.look();
  assert.deepEqual(reaped, []);
  nowMs = 5_000;
  reaper.look();
  assert.deepEqual(reaped, ['short']);
  nowMs = 60_000;
  reaper.look();
  assert.deepEqual(reaped, ['short', 'short', 'long']);
});

test('time left is counted from the creation', () => {
  assert.equal(timeLeftMs({ bornMs: 1_000, maxLifetimeS: 2 }, 2_000), 1_000);
  assert.equal(timeLeftMs({ bornMs: 1_000, maxLifetimeS: 0 }, 2_000), undefined);
});
