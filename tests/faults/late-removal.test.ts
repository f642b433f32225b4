/** A removal that does not end in time, because something in the sandbox does not die: the daemon goes on until it is done. */
import assert from 'node:assert/strict';
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { DaemonInfo } from '@squash/contract/daemon';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { ApiClient } from '../support/api-client.ts';
import { isOnVms, seenAs } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { cgroupsOf, type ProcessEntry, processesOf, signalAll } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, sandboxesPath } from './model.ts';

async function pending(daemon: TestDaemon): Promise<string | undefined> {
  const { problems = [] } = await daemon.call('GET', '/cgi-bin/health');
  const { problems: told } = (await daemon.call('GET', '/v1/info')) as DaemonInfo;
  assert.deepEqual(told, problems);
  return told.find(({ code }) => code === 'removal_pending')?.message;
}

const metric = async (daemon: TestDaemon): Promise<string> =>
  (await daemon.request('GET', '/metrics')).text.match(
    /squash_problem\{code="removal_pending"\} (\d)/,
  )?.[1] ?? '';

async function waitUntilGone(daemon: TestDaemon, id: string): Promise<void> {
  await waitFor(`${id} to be removed`, async () => (await daemon.request('GET', boxPath(id))).status === 404);
  assert.equal(existsSync(join(daemon.dataDir, 'sandboxes', id)), false);
  await waitFor('the problem to be over', async () => (await pending(daemon)) === undefined);
  assert.equal(await metric(daemon), '0');
}

const isLauncher = (entry: ProcessEntry): boolean => entry.command.includes('squash-launch resident');

function freezersOf(daemon: TestDaemon): readonly string[] {
  return cgroupsOf(daemon.dataDir)
    .filter((group) => !group.endsWith('/egress'))
    .map((group) => join(group, 'freezer.state'))
    .filter((path) => existsSync(path));
}

// Each has its daemon, and waits for most of its time.
describe('a removal', { concurrency: true }, () => {
  test('a removal that timed out is told of, and done without another request', async () => {
    await using daemon = await TestDaemon.start();
    const api = new ApiClient(daemon);
    for (const id of ['one', 'two']) await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
    const command = api.post(boxPath('one', '/exec'), { cmd: 'sleep 600' });
    await waitFor('the command to run', () =>
      processesOf(daemon.dataDir).some((entry) => entry.command.includes(seenAs('sleep 600'))),
    );
    signalAll(daemon.dataDir, 'SIGSTOP', isLauncher);
    try {
      const refused = await api.delete(boxPath('one'));
      assert.deepEqual([refused.status, refused.json.code], [503, 'launcher_unavailable']);
      assert.match(refused.json.error, /goes on removing sandbox "one"/);
      const record = await command;
      assert.deepEqual([record.status, record.json.reason], [200, 'destroyed']);
      assert.equal(((await api.get(boxPath('one'))).json as SandboxInfo).state, 'destroying');
      assert.match((await pending(daemon)) ?? '', /^sandbox "one" could not be removed yet/);
      assert.equal(await metric(daemon), '1');
      assert.equal((await api.post(boxPath('one', '/exec'), { cmd: 'true' })).json.code, 'sandbox_not_found');
      assert.equal((await api.post(sandboxesPath, { id: 'one' })).json.code, 'sandbox_exists');
    } finally {
      signalAll(daemon.dataDir, 'SIGCONT', isLauncher);
    }
    await waitUntilGone(daemon, 'one');
    assert.equal((await api.get(boxPath('two'))).json.state, 'ready');
    assert.equal((await api.post(sandboxesPath, { id: 'one', memory_mb: 64 })).status, 201);
  });

  test('a removal that waits for a create which then fails is done with its undo', async () => {
    await using daemon = await TestDaemon.start();
    const api = new ApiClient(daemon);
    await daemon.call('POST', sandboxesPath, { id: 'first', memory_mb: 64 });
    await daemon.call('DELETE', boxPath('first'));
    const layers = join(daemon.dataDir, isOnVms ? 'vm/layers' : 'layers');
    signalAll(daemon.dataDir, 'SIGSTOP', isLauncher);
    const created = api.post(sandboxesPath, { id: 'one', memory_mb: 64 });
    await waitFor('the create', async () => (await api.get(boxPath('one'))).status === 200);
    const removed = api.delete(boxPath('one'));
    // Behind these the removal is known and waits.
    for (let asked = 0; asked < 3; asked += 1) assert.equal(await pending(daemon), undefined);
    renameSync(layers, `${layers}.away`);
    signalAll(daemon.dataDir, 'SIGCONT', isLauncher);
    // A microVM's start is given up when the removal comes.
    assert.equal((await created).json.code, isOnVms ? 'sandbox_not_found' : 'launch_failed');
    renameSync(`${layers}.away`, layers);
    assert.equal((await removed).status, 204);
    assert.equal(await pending(daemon), undefined);
    await daemon.call('POST', sandboxesPath, { id: 'one', memory_mb: 64, max_lifetime_s: 1 });
    await waitUntilGone(daemon, 'one');
  });

  test('a removal that a daemon could not finish is finished by the next, whose start does not wait for it', async (t) => {
    await using daemon = await TestDaemon.start();
    await daemon.call('POST', sandboxesPath, { id: 'stuck', memory_mb: 64 });
    const [freezer] = freezersOf(daemon);
    if (freezer === undefined) {
      t.skip('no freezer of version 1 of control groups: nothing else keeps a killed process alive here');
      return;
    }
    await daemon.call('POST', sandboxesPath, { id: 'other', memory_mb: 64 });
    writeFileSync(freezer, 'FROZEN');
    try {
      const cut = daemon.request('DELETE', boxPath('stuck')).catch(() => undefined);
      await waitFor('the removal to begin', async () => {
        const info = (await daemon.call('GET', boxPath('stuck'))) as SandboxInfo;
        return info.state === 'destroying';
      });
      await daemon.kill();
      await cut;
      await daemon.start();
      const info = (await daemon.call('GET', boxPath('stuck'))) as SandboxInfo;
      assert.equal(info.state, 'destroying');
      assert.match((await pending(daemon)) ?? '', /^sandbox "stuck" could not be removed yet/);
      const { exit_code: exitCode } = await daemon.call('POST', boxPath('other', '/exec'), { cmd: 'true' });
      assert.equal(exitCode, 0);
    } finally {
      writeFileSync(freezer, 'THAWED');
    }
    await waitUntilGone(daemon, 'stuck');
  });
});
