/** Which sandboxes are measured, and what is kept of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '@squash/contract/limits';
import { type DueFacts, isDue } from './usage.ts';
import { cpuBetween, type Measured, UsageRing } from './usage-ring.ts';

const idle: DueFacts = {
  isRunning: true,
  idleMs: limits.usageLatelyMs,
  hasCommands: false,
  sampledMs: 0,
  askedMs: -Infinity,
  cpuUsLately: 0,
};

test('a round asks for sandboxes that are in use, and for no other', () => {
  const nowMs = 10 * limits.usageLatelyMs;
  const table: readonly [string, Partial<DueFacts>, boolean][] = [
    ['nobody uses it', {}, false],
    ['never measured, and nobody uses it', { sampledMs: -Infinity, cpuUsLately: null }, false],
    ['a client used it', { idleMs: limits.usageLatelyMs - 1 }, true],
    ['somebody asked', { askedMs: nowMs - limits.usageLatelyMs + 1 }, true],
    ['somebody asked, long ago', { askedMs: nowMs - limits.usageLatelyMs }, false],
    ['it works by itself', { cpuUsLately: limits.usageBusyCpuUs }, true],
    ['its commands wait, not looked at for long', { hasCommands: true }, true],
    ['its commands wait, looked at', { hasCommands: true, sampledMs: nowMs - limits.usageSampleMs }, false],
    ['in use, but it does not run', { idleMs: 0, isRunning: false }, false],
  ];
  for (const [what, facts, expected] of table)
    assert.equal(isDue({ ...idle, ...facts }, nowMs), expected, what);
});

const sample = (atMs: number, cpuUs: number | null = atMs): Measured => ({
  atMs,
  cpuUs,
  memoryBytes: 2 ** 40,
  pids: 1,
  diskBytes: null,
  diskInodes: 0,
  inBytes: null,
  outBytes: null,
  connections: null,
  connectionsOpen: null,
});

test('the ring keeps the last ten minutes of samples, and nothing for what is not known', () => {
  const ring = new UsageRing();
  assert.deepEqual(ring.all(), []);
  const most = limits.usageHistoryMs / limits.usageSampleMs;
  for (let at = 0; at < 3 * most + 7; at += 1) ring.push(sample(at));
  const all = ring.all();
  assert.deepEqual(
    all.map(({ atMs }) => atMs),
    Array.from({ length: most }, (_, at) => 2 * most + 7 + at),
  );
  assert.deepEqual(all.at(-1), sample(3 * most + 6));
});

test('processor time of a sandbox that was started anew is what it used since', () => {
  assert.equal(cpuBetween(sample(1, 10), sample(2, 25)), 15);
  assert.equal(cpuBetween(sample(1, 1_000), sample(2, 25)), 25);
  assert.equal(cpuBetween(sample(1, null), sample(2, 25)), null);
  assert.equal(cpuBetween(undefined, sample(2, 25)), null);
});
