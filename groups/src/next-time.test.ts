/** The times of schedules: zones, summer time, dates that never come, clocks that are set. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { groupLimits } from '@squash/contract/group-limits';
import { firstTime, leastGapS, timeAfter, type Timing, turnOf } from './next-time.ts';

const fromMs = Date.parse('2026-01-01T00:00:00Z');
const iso = (ms: number | null): string | null =>
  ms === null ? null : new Date(ms).toISOString().slice(0, 16);

/** So many times from this one on. */
function times(timing: Omit<Timing, 'fromMs'>, after: string, count: number): readonly (string | null)[] {
  const found: (string | null)[] = [];
  for (let at: number | null = Date.parse(after); found.length < count && at !== null; ) {
    at = timeAfter({ ...timing, fromMs }, at);
    found.push(iso(at));
  }
  return found;
}

const berlin = { time_zone: 'Europe/Berlin' };

test('cron goes by its zone, by UTC without one', () => {
  const noon = { cron: '0 12 * * *' };
  assert.deepEqual(times(noon, '2026-07-01T00:00:00Z', 1), ['2026-07-01T12:00']);
  assert.deepEqual(times({ ...noon, ...berlin }, '2026-07-01T00:00:00Z', 1), ['2026-07-01T10:00']);
  assert.deepEqual(times({ ...noon, time_zone: 'Asia/Kathmandu' }, '2026-07-01T00:00:00Z', 1), [
    '2026-07-01T06:15',
  ]);
  assert.deepEqual(times({ cron: '0 0 L feb *' }, '2026-07-01T00:00:00Z', 2), [
    '2027-02-28T00:00',
    '2028-02-29T00:00',
  ]);
  assert.deepEqual(times({ cron: '0 0 1 * mon' }, '2026-07-01T00:00:00Z', 2), [
    '2026-07-06T00:00',
    '2026-07-13T00:00',
  ]);
});

test('a time of cron that the clock leaves out in spring comes right after, once; what recurs goes on', () => {
  const eve = '2026-03-28T12:00:00Z';
  assert.deepEqual(times({ cron: '30 2 * * *', ...berlin }, eve, 2), [
    '2026-03-29T01:00',
    '2026-03-30T00:30',
  ]);
  assert.deepEqual(times({ cron: '30 2,3 * * *', ...berlin }, eve, 3), [
    '2026-03-29T01:00',
    '2026-03-29T01:30',
    '2026-03-30T00:30',
  ]);
  assert.deepEqual(times({ cron: '*/30 * * * *', ...berlin }, '2026-03-29T00:00:00Z', 3), [
    '2026-03-29T00:30',
    '2026-03-29T01:00',
    '2026-03-29T01:30',
  ]);
});

test('a time of cron that the clock has twice in autumn comes once; what recurs goes on', () => {
  assert.deepEqual(times({ cron: '30 2 * * *', ...berlin }, '2026-10-24T12:00:00Z', 2), [
    '2026-10-25T00:30',
    '2026-10-26T01:30',
  ]);
  // From within the hour that comes twice as well.
  assert.deepEqual(times({ cron: '30 2 * * *', ...berlin }, '2026-10-25T01:00:00Z', 1), ['2026-10-26T01:30']);
  assert.deepEqual(times({ cron: '0 * * * *', ...berlin }, '2026-10-24T23:00:00Z', 3), [
    '2026-10-25T00:00',
    '2026-10-25T01:00',
    '2026-10-25T02:00',
  ]);
});

test('times of an interval are counted from when it was made, whenever somebody looks', () => {
  const timing = { every_s: 7, fromMs };
  for (let at = fromMs - 30_000; at < fromMs + 30_000; at += 333) {
    const next = timeAfter(timing, at) ?? assert.fail();
    assert.ok((next - fromMs) % 7_000 === 0);
    assert.ok(next > at && next - at <= 7_000);
  }
});

test('what has no time to come is refused, without a search', () => {
  const refused = (timing: Omit<Timing, 'fromMs'>, code: string): void => {
    assert.throws(() => firstTime({ ...timing, fromMs }, fromMs), { code });
  };
  const beganMs = performance.now();
  for (let round = 0; round < 200; round += 1) {
    refused({ cron: '0 0 30 2 *' }, 'schedule_never');
    refused({ cron: '0 0 30,31 FEB *', ...berlin }, 'schedule_never');
    refused({ cron: '0 0 31 4,jun,9-9,11 *' }, 'schedule_never');
  }
  assert.ok(performance.now() - beganMs < 2_000);
  refused({ at: '2025-12-31T23:59:59Z' }, 'schedule_never');
  refused({ at: '2026-01-01T01:00:00+01:00' }, 'schedule_never');
  for (const cron of ['60 * * * *', '* 24 * * *', '*/0 * * * *', '5/7 * * * *', '9-5 * * * *', '0 0 * foo *'])
    refused({ cron }, 'invalid_request');
  assert.equal(iso(firstTime({ cron: '0 0 29 2 *', fromMs }, fromMs)), '2028-02-29T00:00');
  assert.equal(iso(firstTime({ cron: '0 0 30 2 1', fromMs }, fromMs)), '2026-02-02T00:00');
});

test('the least gap is that between two times which croner finds on a day', () => {
  const value = (most: number): fc.Arbitrary<string> => {
    const number = fc.nat({ max: most });
    const range = fc
      .tuple(number, number)
      .map(([one, other]) => `${Math.min(one, other)}-${Math.max(one, other)}`);
    const step = fc.integer({ min: 1, max: most }).map((by) => `*/${by}`);
    return fc
      .array(fc.oneof(number.map(String), range, step), { minLength: 1, maxLength: 3 })
      .map((all) => all.join(','));
  };
  fc.assert(
    fc.property(value(59), value(23), (minute, hour) => {
      const timing = { cron: `${minute} ${hour} * * *`, fromMs };
      const first = timeAfter(timing, fromMs) ?? assert.fail();
      let least = Infinity;
      for (let at = first; at < first + 86_400_000; ) {
        const next = timeAfter(timing, at) ?? assert.fail();
        least = Math.min(least, next - at);
        at = next;
      }
      assert.equal(leastGapS(timing, fromMs), least / 1_000);
    }),
    { numRuns: 60 },
  );
});

test('times that passed are one turn; by its rule it runs or not, and the next is one to come', () => {
  const timing = { every_s: 10, fromMs };
  const nextMs = fromMs + 10_000;
  const turn = (missed: 'run_once' | 'skip', afterMs: number) =>
    turnOf({ timing, missed, toldMs: fromMs, nextMs }, nextMs + afterMs);
  assert.deepEqual(turn('skip', -1), { kind: 'waits', nextMs });
  assert.deepEqual(turn('skip', 0), { kind: 'runs', isLate: false, nextMs: nextMs + 10_000 });
  assert.deepEqual(turn('skip', 9_999), { kind: 'runs', isLate: false, nextMs: nextMs + 10_000 });
  assert.deepEqual(turn('run_once', 3_600_001), { kind: 'runs', isLate: true, nextMs: nextMs + 3_610_000 });
  assert.deepEqual(turn('skip', 3_600_001), { kind: 'missed', isLate: true, nextMs: nextMs + 3_610_000 });
  const once = { timing: { at: '2026-01-02T00:00:00Z', fromMs }, missed: 'skip' as const, toldMs: fromMs };
  const atMs = fromMs + 86_400_000;
  assert.deepEqual(turnOf({ ...once, nextMs: atMs }, atMs + 5), {
    kind: 'runs',
    isLate: false,
    nextMs: null,
  });
  assert.deepEqual(turnOf({ ...once, nextMs: atMs }, atMs + groupLimits.missedAfterMs), {
    kind: 'missed',
    isLate: true,
    nextMs: null,
  });
});

test('a clock that is put back repeats no time of cron, and one that was wrong holds up none', () => {
  const timing = { cron: '0 * * * *', fromMs };
  const standing = { timing, missed: 'run_once' as const, toldMs: fromMs, nextMs: fromMs + 3_600_000 };
  assert.deepEqual(turnOf(standing, fromMs - 3_600_000), { kind: 'waits', nextMs: standing.nextMs });
  assert.deepEqual(turnOf(standing, fromMs - 5 * 3_600_000), {
    kind: 'toldAnew',
    nextMs: fromMs - 4 * 3_600_000,
  });
  // An interval is of time that passes: it goes on.
  const every = { ...standing, timing: { every_s: 10, fromMs }, nextMs: fromMs + 10_000 };
  assert.deepEqual(turnOf(every, fromMs - 60_000), { kind: 'toldAnew', nextMs: fromMs - 50_000 });
  assert.deepEqual(turnOf(every, fromMs - 5_000), { kind: 'waits', nextMs: fromMs + 10_000 });
});
