/** The life of a sandbox as tables: every event in every state. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '@squash/contract/limits';
import { admitCommand, decide, type Life, type LifeEvent, type State } from './lifecycle.ts';

const states: readonly State[] = [
  { phase: 'creating' },
  { phase: 'ready', instance: 7 },
  { phase: 'paused', instance: 7, wakes: false },
  { phase: 'stopped', wakes: true },
  { phase: 'restarting' },
  { phase: 'failed', message: 'no' },
  { phase: 'destroying' },
];
const events: readonly LifeEvent[] = [
  { type: 'started', instance: 8 },
  { type: 'replacing', reason: 'layers_changed' },
  { type: 'start-failed', message: 'why' },
  { type: 'died', instance: 7, nowMs: 0 },
  { type: 'destroying' },
  { type: 'stopped', wakes: true },
];
const life = (state: State, deathsMs: readonly number[] = []): Life => ({ state, deathsMs });

test('a sandbox that is being destroyed never changes its state again', () => {
  for (const event of events) {
    const before = life({ phase: 'destroying' });
    assert.deepEqual(decide(before, event, limits), { life: before, effects: [] });
  }
});

test('a sandbox in any other state follows each event', () => {
  const after = ['ready', 'restarting', 'failed', undefined, 'destroying', 'stopped'] as const;
  for (const state of states.filter(({ phase }) => phase !== 'destroying')) {
    for (const [index, event] of events.entries()) {
      if (after[index] === undefined) continue;
      assert.equal(
        decide(life(state), event, limits).life.state.phase,
        after[index],
        `${state.phase} ${event.type}`,
      );
    }
  }
});

test('the death of an instance that is not the present one is ignored', () => {
  for (const state of states.filter(({ phase }) => phase !== 'ready' && phase !== 'paused')) {
    const before = life(state);
    assert.deepEqual(decide(before, { type: 'died', instance: 7, nowMs: 0 }, limits).life, before);
  }
  const ready = life({ phase: 'ready', instance: 7 });
  assert.deepEqual(decide(ready, { type: 'died', instance: 6, nowMs: 0 }, limits).effects, []);
});

test('a sandbox whose PID 1 keeps dying waits longer each time and is given up in the end', () => {
  let current = life({ phase: 'ready', instance: 7 });
  const waits: number[] = [];
  for (let death = 0; death < limits.restartsMax; death += 1) {
    const decision = decide(current, { type: 'died', instance: 7, nowMs: death }, limits);
    const restart = decision.effects.find((effect) => effect.do === 'restart');
    waits.push(restart?.afterMs ?? -1);
    current = decide(decision.life, { type: 'started', instance: 7 }, limits).life;
  }
  assert.deepEqual(waits, [0, 100, 200, 400, 800]);
  const last = decide(current, { type: 'died', instance: 7, nowMs: 5 }, limits);
  assert.equal(last.life.state.phase, 'failed');
  assert.deepEqual(
    last.effects.map((effect) => effect.do),
    ['end-runs', 'tell-waiters'],
  );
});

test('deaths outside the window do not count', () => {
  const old = Array.from({ length: limits.restartsMax }, (_, at) => at);
  const decision = decide(
    life({ phase: 'ready', instance: 7 }, old),
    { type: 'died', instance: 7, nowMs: limits.restartWindowMs + 100 },
    limits,
  );
  assert.equal(decision.life.state.phase, 'restarting');
  assert.deepEqual(decision.life.deathsMs, [limits.restartWindowMs + 100]);
});

test('a command is admitted, waits or is refused by the state alone', () => {
  assert.deepEqual(
    states.map((state) => admitCommand(state).verdict),
    ['wait', 'go', 'refuse', 'wake', 'wait', 'refuse', 'refuse'],
  );
});

test('only what runs is paused, only what is paused goes on, and one that dies meanwhile is stopped', () => {
  for (const state of states.filter(({ phase }) => phase !== 'destroying')) {
    const paused = decide(life(state), { type: 'paused', wakes: true }, limits).life.state;
    const isAlive = state.phase === 'ready' || state.phase === 'paused';
    assert.deepEqual(paused, isAlive ? { phase: 'paused', instance: 7, wakes: true } : state);
    const resumed = decide(life(state), { type: 'resumed' }, limits).life.state;
    assert.deepEqual(resumed, state.phase === 'paused' ? { phase: 'ready', instance: 7 } : state);
  }
  const still = life({ phase: 'paused', instance: 7, wakes: true });
  const dead = decide(still, { type: 'died', instance: 7, nowMs: 0 }, limits);
  assert.deepEqual(dead.life.state, { phase: 'stopped', wakes: true });
  assert.deepEqual(dead.effects[0], { do: 'end-runs', reason: 'killed' });
});
