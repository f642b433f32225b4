/** What began and how long it took agree, whatever is done to the wall clock. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Clock, type MonoMs, steadyWallMs, type WallMs } from './clock.ts';

test('steady wall time goes on by the monotonic clock, and not before what an earlier process wrote', () => {
  let wallMs = 1_000_000;
  let monoMs = 50;
  const clock: Clock = { wallMs: () => wallMs as WallMs, monoMs: () => monoMs as MonoMs };
  const nowMs = steadyWallMs(clock, 0);
  const later = steadyWallMs(clock, 2_000_000);
  // An hour back, and two seconds on.
  wallMs -= 3_600_000;
  monoMs += 2_000.4;
  assert.equal(nowMs(), 1_002_000);
  assert.equal(later(), 2_002_000);
});
