/** MicroVMs that together write more than the host's file system holds: they wait for room, and what they wrote before and behind it is there. */
import assert from 'node:assert/strict';
import { statfsSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ExecRecord } from '@squash/contract/exec';
import { vmModule } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { needsRoot, smallExt4 } from '../support/small-disk.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, lines, output, sandboxesPath } from './model.ts';

const megabyte = 1_048_576;
const ids = ['one', 'two'];
const skip = process.arch === 'x64' ? needsRoot : 'the VM module is of x86_64 alone';
/** Not zeros, of which a guest's disk holds none. */
const fill = 'echo kept >/kept; sync; yes | head -c 90000000 >/fill && sync && md5sum </fill';

test('microVMs that find no room on the disk go on where there is some, and have lost nothing', {
  skip,
}, async () => {
  using disk = smallExt4(1000 * megabyte);
  await using daemon = await TestDaemon.start({
    parent: disk.path,
    modules: { '900-vmm': await vmModule() },
    env: { SQUASH_UPPER_LIMIT_MB: '200' },
  });
  for (const id of ids) await daemon.call('POST', sandboxesPath, { id, memory_mb: 128, backend: 'vm' });
  const { bavail, bsize } = statfsSync(disk.path);
  disk.take(bavail * bsize - 60 * megabyte);
  const run = async (id: string): Promise<ExecRecord> =>
    (await daemon.call('POST', boxPath(id, '/exec'), { cmd: fill, timeout: 300 })) as ExecRecord;
  const running = ids.map(run);
  await waitFor('the disk to be full', () => statfsSync(disk.path).bavail === 0, 120_000);
  const { problems } = await daemon.call('GET', '/cgi-bin/health');
  assert.equal(problems?.[0]?.code, 'disk_low');
  // Longer than it takes until they are asked to go on, for which there is no room yet.
  await delay(12_000);
  disk.free();
  // Mostly before it was told to go on: then it is when it is resumed.
  await daemon.call('POST', '/v1/sandboxes/two/pause');
  const one = await running[0];
  await delay(12_000);
  await daemon.call('POST', '/v1/sandboxes/two/resume');
  const two = await running[1];
  assert.deepEqual([one?.exit_code, one?.stderr, two?.stdout], [0, '', one?.stdout]);
  for (const id of ids) assert.equal((await daemon.call('GET', boxPath(id))).state, 'ready');
  await daemon.cutPower();
  await daemon.start();
  for (const id of ids) {
    await waitFor('it to be back', async () => (await daemon.call('GET', boxPath(id))).state === 'ready');
    assert.deepEqual(await lines(daemon, id, 'cat /kept'), ['kept']);
    assert.equal(await output(daemon, id, 'md5sum </fill'), one?.stdout);
  }
});
