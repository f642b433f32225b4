/**
 * What the kernel counts per user of the host, by the example of inotify instances and queued signals (of which a
 * timer is one): a sandbox that takes all it gets leaves its neighbours theirs, and the host's own services theirs.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, watch } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { TestDaemon } from '../support/daemon.ts';
import { smallTool } from './tool.ts';

const sandboxes = '/cgi-bin/api/sandboxes';

async function layer(folder: string): Promise<string> {
  await mkdir(join(folder, 'tree'));
  await copyFile(await smallTool('counted'), join(folder, 'tree/counted'));
  const module = join(folder, 'module.squashfs');
  execFileSync('mksquashfs', [join(folder, 'tree'), module, '-all-root', '-quiet', '-no-progress']);
  return module;
}

const unlimited = process.getuid?.() === 0 ? false : 'needs root: others may have no control groups';

test('what lies unread in Internet sockets counts as memory', { skip: unlimited }, async () => {
  const folder = await mkdtemp('/tmp/squash-counted-');
  try {
    await using daemon = await TestDaemon.start({ modules: { '500-counted': await layer(folder) } });
    const body = { id: 'hoard', owner: 'a', layers: '000-base-test,500-counted', memory_mb: 128 };
    assert.equal((await daemon.request('POST', sandboxes, body)).status, 201);
    // 3,000 sockets of two to four datagrams: some 400 MB where nothing bounds it.
    const { json } = await daemon.request('POST', `${sandboxes}/hoard/exec`, {
      cmd: '/counted sockets 3000',
    });
    // The second version of control groups refuses no datagram: who holds too many is ended for want of memory.
    if (existsSync('/sys/fs/cgroup/cgroup.controllers')) {
      assert.deepEqual([json.exit_code, json.reason], [137, 'oom_killed'], JSON.stringify(json));
      return;
    }
    assert.equal(json.exit_code, 0, json.stderr);
    assert.ok(Number(json.stdout) < 128 * 2 ** 20, `held ${json.stdout} bytes`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test('one sandbox that takes all inotify instances and signals takes nobody else’s', async () => {
  const folder = await mkdtemp('/tmp/squash-counted-');
  try {
    await using daemon = await TestDaemon.start({ modules: { '500-counted': await layer(folder) } });
    const takeAll = async (id: string): Promise<readonly [number, number]> => {
      const body = { id, owner: 'a', layers: '000-base-test,500-counted' };
      assert.equal((await daemon.request('POST', sandboxes, body)).status, 201);
      const { json } = await daemon.request('POST', `${sandboxes}/${id}/exec`, { cmd: '/counted' });
      assert.equal(json.exit_code, 0, json.stderr);
      const [watches = 0, signals = 0] = String(json.stdout).split(' ').map(Number);
      return [watches, signals];
    };
    const greedy = await takeAll('greedy');
    assert.ok(greedy[0] > 0 && greedy[0] <= 64, `inotify instances: ${greedy[0]}`);
    assert.ok(greedy[1] > 0 && greedy[1] <= 4096, `signals: ${greedy[1]}`);
    assert.deepEqual(await takeAll('neighbour'), greedy);
    // As whoever started the daemon. @throws EMFILE
    watch('/', () => {}).close();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
