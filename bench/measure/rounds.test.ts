/** A scenario takes as many rounds as it says, or as its time allows, and a subject that fails is out alone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runScenario } from './rounds.ts';
import type { Scenario, Subject } from './scenario.ts';

const quick: Subject = { name: 'quick', cycle: async () => ({ one: 1, many: [1, 2] }) };
const rare: Subject = { name: 'rare', every: 2, cycle: async () => ({ one: 3 }) };
const broken: Subject = { name: 'broken', cycle: async (round) => await fail(round) };

test('every round has every subject that is due, and bare spawns', async () => {
  const result = await runScenario(scenario([quick, rare]), never());
  assert.deepEqual(counts(result.results), { 'quick one': 4, 'quick many': 8, 'rare one': 2 });
  assert.ok(result.spawnMs.length >= 20);
});

test('no further round begins when the time is over, but each subject was measured once', async () => {
  const result = await runScenario({ ...scenario([quick, rare]), secondsMax: 0 }, never());
  assert.deepEqual(counts(result.results), { 'quick one': 1, 'quick many': 2, 'rare one': 1 });
});

test('a subject that fails is out with its reason, and the others go on', async () => {
  const result = await runScenario(scenario([broken, quick]), never());
  assert.deepEqual(result.absent, [{ name: 'broken', absent: 'it broke in round 2' }]);
  assert.deepEqual(counts(result.results), { 'quick one': 4, 'quick many': 8 });
});

async function fail(round: number): Promise<{ one: number }> {
  if (round === 2) throw new Error(`it broke in round ${round}`);
  return { one: round };
}

function scenario(subjects: readonly Subject[]): Scenario {
  const metrics = [{ id: 'one', title: 'one', unit: 'ms' }] as const;
  return { id: 'exec', title: 'title', about: 'about', metrics, warmups: 1, rounds: 4, subjects };
}

function never(): AbortSignal {
  return new AbortController().signal;
}

function counts(results: Awaited<ReturnType<typeof runScenario>>['results']): Record<string, number> {
  return Object.fromEntries(results.map((row) => [`${row.subject} ${row.metric}`, row.samples.length]));
}
