/** Times: who is reaped at a look, and when no timer is set. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sandboxIdSchema } from '@squash/contract/ids';
import { Reaper } from './reaper.ts';

test('a sandbox is reaped when its time is over, one without an end never', () => {
  let nowMs = 0;
  const reaped: string[] = [];
  const rows = () => [
    { id: sandboxIdSchema.parse('short'), inMs: 5_000 - nowMs },
    { id: sandboxIdSchema.parse('long'), inMs: 50_000 - nowMs },
    { id: sandboxIdSchema.parse('endless'), inMs: Number.POSITIVE_INFINITY },
  ];
  using reaper = new Reaper({ rows, reap: (id) => reaped.push(id) });
  reaper.look();
  assert.deepEqual(reaped, []);
  nowMs = 5_000;
  reaper.look();
  assert.deepEqual(reaped, ['short']);
  nowMs = 60_000;
  reaper.look();
  assert.deepEqual(reaped, ['short', 'short', 'long']);
});
