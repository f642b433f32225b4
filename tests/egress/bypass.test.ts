/** Every attempt to get around a sandbox's network, in a sandbox where it must fail. `bypass-controls.test.ts` shows that each could succeed. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { attackClasses } from './attempt.ts';
import { attempts } from './attempts/all.ts';
import { Scene } from './scene.ts';
import { needsRoot } from './world/world.ts';

const stack = new AsyncDisposableStack();
let scene: Scene;

before(async () => {
  if (needsRoot === false) scene = stack.use(await Scene.start());
});

after(() => stack.disposeAsync());

/** A program may do so in a guest: the relay stands outside, and no packet of the guest's own loopback gets there. */
const ownInVm = /^(?:relay-port|sysctl-route-localnet$)/;

for (const attempt of attempts) {
  const isOwn = isOnVms && ownInVm.test(attempt.id);
  const skip = isOwn ? 'a microVM has a loopback of its own, at which no relay stands' : needsRoot;
  test(`nothing gets past the policy when ${attempt.id} is tried`, { skip }, async () => {
    const outcome = await scene.attempt(attempt, 'attacked');
    assert.equal(outcome.isBreach, false, outcome.why);
    await scene.expectUnharmed();
  });
}

test('attempts are at least sixty with names of their own, and every class has a proven one', () => {
  const ids = attempts.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(ids.length >= 60, `only ${ids.length}`);
  const proven = new Set(attempts.flatMap((one) => (typeof one.control === 'string' ? [one.class] : [])));
  assert.deepEqual(
    attackClasses.filter((one) => !proven.has(one)),
    [],
  );
});
