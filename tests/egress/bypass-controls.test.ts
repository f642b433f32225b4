/**
 * The attempts of `bypass.test.ts` where nothing is in their way: there each must succeed, so that a script that could never
 * work shows here instead of passing for a wall.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { thisTurn } from '../support/turn.ts';
import { attempts } from './attempts/all.ts';
import { Scene } from './scene.ts';
import { needsRoot } from './world/world.ts';

const stack = new AsyncDisposableStack();
let scene: Scene;

before(async () => {
  if (needsRoot === false) scene = stack.use(await Scene.start());
});

after(() => stack.disposeAsync());

const provable = attempts.flatMap((attempt) =>
  typeof attempt.control === 'object' ? [] : [{ attempt, control: attempt.control }],
);

for (const { attempt, control } of thisTurn(provable)) {
  test(`${attempt.id} succeeds where nothing stands in its way`, { skip: needsRoot }, async () => {
    const outcome = await scene.attempt(attempt, control);
    assert.equal(outcome.isBreach, true, outcome.why);
  });
}
