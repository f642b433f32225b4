/** A sandbox's processes have a limit in every way of starting, also where no control group counts them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher } from '../../../tests/support/launcher.ts';

await insideLauncher(import.meta.filename, ['default', 'user', 'user-single'], (place) => {
  const isSingle = place.mode === 'user-single';
  const start = (count: number): string => `i=0; while [ $i -lt ${count} ]; do sleep 1000 & i=$((i+1)); done`;

  test('processes of a sandbox stay below its limit, whatever ids they take', async () => {
    await using box = await launchSandbox(place, 'bomb');
    await using neighbour = await launchSandbox(place, 'calm');
    if (!isSingle) await box.sh(`su -s /bin/sh nobody -c '${start(40)}'`);
    // Counting must not fork: there is nothing left to fork with.
    const { output } = await box.sh(`( ${start(100)} ) 2> /dev/null; set -- /proc/[0-9]*; echo $#`);
    const count = Number(output.trim().split('\n').at(-1));
    assert.ok(count > 32 && count <= 64, output);
    assert.equal((await neighbour.sh('sleep 0; echo fine')).output, 'fine\n');
  });
});
