/** When a sandbox's time is over: by its lifetime, or because nobody used it and it did not work. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '@squash/base/clock';
import { Activity } from './activity.ts';

class TestClock implements Clock {
  ms = 1_000_000;
  wallMs = (): ReturnType<Clock['wallMs']> => this.ms as ReturnType<Clock['wallMs']>;
  monoMs = (): ReturnType<Clock['monoMs']> => this.ms as ReturnType<Clock['monoMs']>;
}

function rowOf(times: { readonly lifetimeS?: number; readonly idleS?: number }) {
  const { lifetimeS = 0, idleS = 0 } = times;
  return {
    lifetimeFromMs: 1_000_000,
    maxLifetimeS: lifetimeS,
    idleTimeoutS: idleS,
    onTimeout: 'destroy' as const,
  };
}

test('a sandbox without times has none', () => {
  const activity = new Activity(new TestClock(), rowOf({}));
  assert.deepEqual(activity.next(rowOf({}), false), { what: 'nothing', inMs: Number.POSITIVE_INFINITY });
});

test('a lifetime counts from where it began, however the sandbox is used', () => {
  const clock = new TestClock();
  const row = rowOf({ lifetimeS: 60 });
  const activity = new Activity(clock, row);
  clock.ms += 40_000;
  activity.touch();
  assert.deepEqual(activity.next(row, true), { what: 'lifetime', inMs: 20_000 });
  activity.renew();
  assert.deepEqual(activity.next(row, true), { what: 'lifetime', inMs: 60_000 });
});

test('idle time is over when nothing was asked and nothing worked since it was half over', () => {
  const clock = new TestClock();
  const row = rowOf({ idleS: 60 });
  const activity = new Activity(clock, row);
  assert.deepEqual(activity.next(row, false), { what: 'sample', inMs: 30_000 });
  clock.ms += 30_000;
  assert.deepEqual(activity.next(row, false), { what: 'sample', inMs: 0 });
  activity.sampled(5_000_000);
  assert.deepEqual(activity.next(row, false), { what: 'idle', inMs: 30_000 });
  clock.ms += 30_000;
  assert.deepEqual(activity.next(row, false), { what: 'idle', inMs: 0 });
  // A fiftieth of a processor is rest, a twentieth work.
  assert.equal(activity.hasWorked(5_000_000 + 600_000), false);
  assert.equal(activity.hasWorked(5_000_000 + 1_500_000), true);
});

test('any use begins the idle time anew, and a command that is waited for keeps it from beginning', () => {
  const clock = new TestClock();
  const row = rowOf({ idleS: 60 });
  const activity = new Activity(clock, row);
  clock.ms += 30_000;
  activity.sampled(0);
  activity.touch();
  assert.deepEqual(activity.next(row, false), { what: 'sample', inMs: 30_000 });
  clock.ms += 300_000;
  assert.deepEqual(activity.next(row, true), { what: 'sample', inMs: 30_000 });
  // A daemon that was held up looks late: it samples first all the same.
  clock.ms += 300_000;
  activity.sampled(0);
  assert.deepEqual(activity.next(row, false), { what: 'idle', inMs: 30_000 });
});
