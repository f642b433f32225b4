/** Uppers with a size of their own: the limit holds to the byte, a full one starts again, nothing of one stays. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchSandbox } from '../../../../tests/support/launched-sandbox.ts';
import { insideLauncher, startOf } from '../../../../tests/support/launcher.ts';
import { waitFor } from '../../../../tests/support/wait.ts';
import { probeHost } from '../../launch/host-probe.ts';

const bytesMax = 2 ** 24;
const inodesMax = 600;

await insideLauncher(import.meta.filename, ['default', 'single', 'user'], async (place) => {
  const { client, dataDir } = place;
  const capabilities = await probeHost(client);
  for (const kind of ['project', 'image', 'tmpfs'] as const) {
    const found = capabilities.find(({ name }) => name === `upper_${kind}`);
    const skip = found?.state === 'ok' ? false : `this host gives no such upper: ${found?.found}`;
    const upperOf = (name: string) => ({ path: `sandboxes/${name}/uppers/1`, kind, bytesMax, inodesMax });
    const reserved = 64 * 1_024;

    test(`${kind} upper takes what it may and no more when a command fills it`, { skip }, async () => {
      await using box = await launchSandbox(place, 'full', { upper: upperOf('full') });
      const { output } = await box.sh('dd if=/dev/zero of=/big bs=4k count=8000; stat -c %s /big; rm /big');
      const size = Number(output.trim().split('\n').at(-1));
      assert.match(output, /No space left|Disk quota exceeded/);
      assert.ok(size > bytesMax * 0.8 - reserved && size < bytesMax * 1.2, output);
      const files = await box.sh('i=0; while touch /f$i; do i=$((i+1)); done; echo $i');
      const count = Number(files.output.trim().split('\n').at(-1));
      assert.ok(count > inodesMax - 60 && count < inodesMax, files.output);
      const usage = await client.upperUsage(box.start.upper);
      assert.ok(usage.inodes >= inodesMax - 60, JSON.stringify(usage));
    });

    test(`${kind} upper is made by the start of a new sandbox and missed by that of an old one`, {
      skip,
    }, async () => {
      const start = startOf(place, 'new', { upper: upperOf('new') });
      // A tmpfs lasts as long as the machine runs: each start may have to make it.
      if (kind !== 'tmpfs') {
        await assert.rejects(client.start(start), { code: 'launch_failed' });
        assert.ok(!existsSync(join(dataDir, 'sandboxes/new/uppers')));
      }
      await client.start({ ...start, instance: start.instance + 1_000, makesUpper: true });
      assert.equal((await client.upperUsage(start.upper)).bytes < bytesMax, true);
      await client.stop(start.name);
      await client.removeTree('sandboxes/new');
    });

    test(`${kind} upper that is full starts again with its files when it was stopped`, { skip }, async () => {
      const first = await launchSandbox(place, 'restart', { upper: upperOf('restart') });
      await first.sh(
        'echo kept > /kept; i=0; while touch /f$i; do i=$((i+1)); done; dd if=/dev/zero of=/kept2 bs=4k',
      );
      await client.stop(first.start.name);
      for (let round = 0; round < 2; round += 1) {
        await using box = await launchSandbox(place, 'other', { upper: upperOf('restart') });
        assert.equal((await box.sh('cat /kept')).output, 'kept\n');
      }
      await first[Symbol.asyncDispose]();
      assert.ok(!existsSync(join(dataDir, 'sandboxes/restart')));
    });

    test(`${kind} upper is packed whole when the sandbox runs and when it does not`, { skip }, async () => {
      const box = await launchSandbox(place, 'packed', { upper: upperOf('packed') });
      await box.sh('echo text > /file; rm /etc/os-release');
      for (const round of ['running', 'stopped']) {
        const path = `sandboxes/packed/snapshots/${round}.squashfs`;
        await client.pack({ name: box.start.name, upper: box.start.upper, path, bytesMax: 1e8 });
        const target = `layers/${kind}-${round}`;
        await client.unpack({ path, target, bytesMax: 1e8, inodesMax: 1_000 });
        assert.equal(readFileSync(join(dataDir, target, 'file'), 'utf8'), 'text\n');
        await client.stop(box.start.name);
      }
      await box[Symbol.asyncDispose]();
    });

    for (const [how, forGood] of Object.entries({ stopped: false, 'stopped for good': true })) {
      test(`${kind} upper leaves no device and no mount when it is ${how} and removed`, {
        skip,
      }, async () => {
        const box = await launchSandbox(place, 'gone', { upper: upperOf('gone') });
        await box.sh('dd if=/dev/zero of=/file bs=1M count=8');
        await client.stop(box.start.name, forGood);
        // A daemon that died here removes the tree later, or never.
        const hasDevice = (): boolean =>
          readdirSync('/sys/block').some((name) => backingFile(name).includes(dataDir));
        await waitFor('loop devices to go', () => !hasDevice());
        await box[Symbol.asyncDispose]();
        await waitFor('mounts to go', () => {
          return !readFileSync('/proc/self/mountinfo', 'utf8').includes(`${dataDir}/sandboxes`);
        });
      });
    }
  }

  const image = capabilities.find(({ name }) => name === 'upper_image');
  const skip = image?.state === 'ok' ? false : `this host gives no such upper: ${image?.found}`;
  for (const [size, bytes] of Object.entries({ journalled: bytesMax, small: bytesMax / 2 })) {
    test(`image upper has a journal where it is large enough for one (${size})`, { skip }, async () => {
      const upper = { path: `sandboxes/${size}/uppers/1`, kind: 'image', bytesMax: bytes, inodesMax };
      await using box = await launchSandbox(place, size, { upper });
      assert.equal((await box.sh('echo kept > /kept; cat /kept')).output, 'kept\n');
      const [loop] = readdirSync('/sys/block').filter((name) =>
        backingFile(name).includes(`${dataDir}/${upper.path}`),
      );
      assert.ok(loop !== undefined);
      const thread = readFileSync(`/sys/fs/ext4/${loop}/journal_task`, 'utf8').trim();
      assert.equal(thread !== '<none>', bytes === bytesMax, thread);
    });
  }
});

function backingFile(block: string): string {
  try {
    return readFileSync(`/sys/block/${block}/loop/backing_file`, 'utf8');
  } catch {
    // No loop device, or none in use.
    return '';
  }
}
