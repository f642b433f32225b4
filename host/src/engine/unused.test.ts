/** When nobody needs a sandbox any longer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { Unused } from './unused.ts';

test('a sandbox that went on is given time for its next command, whoever looked at it before', () => {
  let nowMs = 0;
  const activity = { usedMs: 100, resumedMs: Number.NEGATIVE_INFINITY };
  const sandbox = {
    row: { hostRoot: { root: { when_unused: 'stop' } } },
    state: { phase: 'ready' },
    runs: new Map(),
    activity,
    world: { clock: { monoMs: () => nowMs } },
  } as unknown as Sandbox;
  const unused = new Unused();
  assert.equal(unused.inMs(sandbox), 10_100);
  nowMs = 10_050;
  assert.equal(unused.inMs(sandbox), 50);
  // It was stopped and has gone on meanwhile; nobody looked.
  activity.resumedMs = 10_200;
  nowMs = 10_250;
  assert.equal(unused.inMs(sandbox), 9_950);
  nowMs = 20_200;
  assert.equal(unused.inMs(sandbox), 0);
});
