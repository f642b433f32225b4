/**
 * The attempts of `bypass.test.ts` where nothing is in their way: there each must succeed, so that a script that could never
 * work shows here instead of passing for a wall.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
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

/** From a sandbox to an address that the program itself names by its sixteen bytes. */
const byIpv6 = /^address-(?:public-v6|metadata-v6|unique-local-v6|nat64|6to4|teredo)$/;

for (const { attempt, control } of thisTurn(provable)) {
  const skip = isOnVms && byIpv6.test(attempt.id) ? 'a microVM has no way out for IPv6' : needsRoot;
  test(`${attempt.id} succeeds where nothing stands in its way`, { skip }, async () => {
    const outcome = await scene.attempt(attempt, control);
    assert.equal(outcome.isBreach, true, outcome.why);
  });
}
