/** Spare sandboxes: taken by a start, made again, told in no list, and gone with their launcher. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { isErrno } from '@squash/base/errno';
import { launchSandbox } from '../../../tests/support/launched-sandbox.ts';
import { insideLauncher, startOf } from '../../../tests/support/launcher.ts';
import { cgroupsOf, processesOf } from '../../../tests/support/leaks.ts';
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
    assert.match((await second.sh('cat /proc/1/limits')).output, /Max core file size +1 +1 /);
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

  /** The launcher, and its children that have not become anything else. */
  const launchers = (): readonly number[] =>
    processesOf(place.dataDir)
      .filter(({ command }) => command.startsWith('squash-launch resident '))
      .map(({ pid }) => pid);
  const launcher = async (): Promise<number> => {
    await waitFor('its children to have become something else', () => launchers().length === 1);
    return launchers()[0] ?? 0;
  };
  const spareGroups = (hierarchy: string): readonly string[] =>
    cgroupsOf(place.dataDir).filter((path) => /\/spare\d+$/.test(path) && path.includes(hierarchy));
  /** Fails for its lower. */
  const withoutLower = async (name: string) => {
    const start = startOf(place, name, { lowers: ['layers/missing'] });
    await place.client.createUpper(start.upper);
    return start;
  };

  test('spares that are killed one after the other leave nothing in the launcher', async () => {
    await full();
    const pid = await launcher();
    const files = (): number => readdirSync(`/proc/${pid}/fd`).length;
    const before = files();
    for (const round of ['one', 'two', 'three']) {
      const [killed = 0] = spares();
      process.kill(killed, 'SIGKILL');
      await waitFor('it to be gone', () => !spares().includes(killed));
      // One that is taken ends the longer and longer wait for the next.
      await (await launchSandbox(place, round))[Symbol.asyncDispose]();
      await full();
    }
    await waitFor('its files to be closed', () => files() === before);
    const log = readFileSync(join(place.runDir, 'launch.log'), 'utf8');
    assert.doesNotMatch(log, /18446744073709551615/);
  });

  test('a start whose first process is slow to say why it failed fails with that', async () => {
    await full();
    for (const pid of spares()) process.kill(pid, 'SIGSTOP');
    const start = await withoutLower('slow');
    const failed = assert.rejects(place.client.start(start), /can't attach "layers\/missing"/);
    const socket = join(place.runDir, `g/${start.instance}.sock`);
    await waitFor('the supplier to come and go', () => existsSync(socket) && launchers().length === 1, 5_000);
    for (const pid of spares()) process.kill(pid, 'SIGCONT');
    await failed;
  });

  test('a launcher with a failed start whose group stays rests meanwhile', async () => {
    await full();
    const held = spareGroups('').map((path) => join(path, 'held'));
    await Promise.all(held.map(async (path) => mkdir(path)));
    const waiting = spares();
    const failed = assert.rejects(place.client.start(await withoutLower('held')), /can't attach/);
    try {
      await waitFor('the first process to end', () => !waiting.every((pid) => spares().includes(pid)));
      const pid = await launcher();
      const ticks = (): number => {
        const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
        return Number(fields[11]) + Number(fields[12]);
      };
      const before = ticks();
      // What is measured is what it uses of this time: a hundred ticks of a processor.
      await setTimeout(1_000);
      assert.ok(ticks() - before < 40, `${ticks() - before} ticks`);
    } finally {
      await Promise.all(held.map(async (path) => rmdir(path)));
    }
    await failed;
  });

  test('a spare whose group takes no limit costs no start', async (t) => {
    await full();
    const groups = spareGroups('/memory/');
    if (groups.length === 0) return t.skip('version 2 of control groups takes any limit');
    const memory = 2 ** 25;
    // Twice the limit, where there is no swap.
    const hogs = groups.map(() =>
      spawn('/bin/sh', ['-c', 'read go; head -c 64M /dev/zero | tail -c 64M | { sleep 1000; }']),
    );
    for (const [index, hog] of hogs.entries()) {
      await writeFile(join(groups[index] ?? '', 'cgroup.procs'), String(hog.pid));
      hog.stdin.write('\n');
    }
    const isUsed = (path: string): boolean =>
      Number(readFileSync(join(path, 'memory.usage_in_bytes'), 'utf8')) > 1.5 * memory;
    await waitFor('the memory to be used', () => groups.every((path) => isUsed(path)));
    const ended = hogs.map(async (hog) => once(hog, 'exit'));
    await using box = await launchSandbox(place, 'small', { memoryBytesMax: memory });
    assert.equal((await box.sh('echo fine')).output, 'fine\n');
    for (const pid of spares()) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        // It was given up since they were listed.
        assert.ok(isErrno(error, 'ESRCH'));
      }
    }
    for (const hog of hogs) hog.kill('SIGKILL');
    await Promise.all(ended);
  });
});
