/**
 * The attempts of `bypass.test.ts` where nothing is in their way: there each must succeed, so that a script that could never
 * work shows here instead of passing for a wall.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { attempts } from './attempts/all.ts';
import { Scene } from './scene.ts';
import { needsRoot } from './world/world.ts';

const stack = new AsyncDisposableStack();
let scene: Scene;

before(async () => {
  if (needsRoot === false) scene = stack.use(await Scene.start());
});

after(() => stack.disposeAsync());

for (const attempt of attempts) {
  const { id, control } = attempt;
  if (typeof control === 'object') continue;
  test(`${id} succeeds where nothing stands in its way`, { skip: needsRoot }, async () => {
    const outcome = await scene.attempt(attempt, control);
    assert.equal(outcome.isBreach, true, outcome.why);
  });
}
