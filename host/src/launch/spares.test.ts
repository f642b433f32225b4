/** Spare sandboxes: taken by a start, made again, told in no list, and gone with their launcher. */
import assert from 'node:assert/strict';
import { readFileSync, readlinkSync } from 'node:fs';
import { test } from 'node:test';
import { launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher } from '../../../tests/support/launcher.ts';
import { processesOf } from '../../../tests/support/leaks.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const sparesMax = 3;

await insideLauncher(import.meta.filename, ['default', 'single'], (place) => {
  const spares = (): readonly number[] =>
    processesOf(place.dataDir)
      .filter(({ command }) => command.startsWith('squash-launch spare '))
      .map(({ pid }) => pid);
  const full = async (): Promise<boolean> =>
    waitFor('all spares to wait', () => spares().length === sparesMax, 20_000);

  test('a start takes a spare that waits, which is made again and listed nowhere', async () => {
    assert.deepEqual(spares(), [], 'none before anybody wants a sandbox');
    await using first = await launchSandbox(place, 'first');
    await full();
    const before = spares();
    await using second = await launchSandbox(place, 'second', { hostname: 'other', shmBytesMax: 2 ** 21 });
    const listed = await place.client.list();
    assert.deepEqual(listed.map(({ name }) => name).sort(), ['first', 'second']);
    const begun = processesOf(place.dataDir).filter(({ command }) => command.includes('--listen-fd'));
    assert.equal(begun.filter(({ pid }) => before.includes(pid)).length, 1, 'one of them was a spare');
    const { output } = await second.sh('hostname; df /dev/shm | tail -1 | cut -c21-30; cat /etc/resolv.conf');
    assert.match(output, /^other\n\s+2048\n# none\n$/);
    assert.equal((await first.sh('hostname')).output, 'first\n');
    await full();
  });

  test('as many sandboxes at once as there are spares and more all start', async () => {
    await full();
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const boxes = await Promise.all(names.map(async (name) => launchSandbox(place, name)));
    for (const [index, box] of boxes.entries()) {
      assert.equal((await box.sh('hostname; echo x > /file')).output, `${names[index]}\n`);
    }
    await Promise.all(boxes.map(async (box) => box[Symbol.asyncDispose]()));
  });

  test('a spare holds nothing of the host: no mount but its own and /dev, no log', async () => {
    await using _box = await launchSandbox(place, 'holding');
    await full();
    for (const pid of spares()) {
      const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').trim().split('\n');
      const names = mounts.map((line) => line.split(' ')[4] ?? '');
      assert.ok(names.includes('/'));
      assert.deepEqual(
        names.filter((name) => !/^\/($|dev($|\/)|proc($|\/)|covers$)/.test(name)),
        [],
      );
      assert.match(mounts.find((line) => line.includes(' / / ')) ?? '', / - tmpfs squash /);
      assert.equal(readlinkSync(`/proc/${pid}/fd/1`), '/dev/null');
    }
  });

  test('a spare that is killed is replaced, and the next start waits for nothing', async () => {
    await full();
    for (const pid of spares()) process.kill(pid, 'SIGKILL');
    await waitFor('them to be gone', () => spares().length === 0);
    await using box = await launchSandbox(place, 'without');
    assert.equal((await box.sh('echo fine')).output, 'fine\n');
    await full();
  });
});
