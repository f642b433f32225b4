/**
 * Ids of its own for each sandbox of root's Squash: the kernel keeps one account for a user of the host, so what one
 * sandbox uses up of it is nobody else's, and a sandbox is the same user of its files in whatever range it starts.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chownSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf, signalAll } from '../support/leaks.ts';
import { smallExt4 } from '../support/small-disk.ts';
import { waitFor } from '../support/wait.ts';
import { smallTool } from './tool.ts';

const skip = process.getuid?.() === 0 ? false : 'only root has ranges of ids to give';
const sandboxes = '/cgi-bin/api/sandboxes';

/** With the program that takes pipes, and a file of user 1000. */
async function layer(folder: string): Promise<string> {
  const tree = join(folder, 'tree');
  await mkdir(join(tree, 'srv'), { recursive: true });
  await copyFile(await smallTool('counted'), join(tree, 'counted'));
  await writeFile(join(tree, 'srv/theirs'), 'theirs');
  chownSync(join(tree, 'srv/theirs'), 1000, 1000);
  const module = join(folder, 'module.squashfs');
  execFileSync('mksquashfs', [tree, module, '-quiet', '-no-progress']);
  return module;
}

async function withDaemon(
  env: Readonly<Record<string, string>>,
  act: (daemon: TestDaemon, run: (id: string, cmd: string) => Promise<string>) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp('/tmp/squash-own-ids-');
  try {
    await using daemon = await TestDaemon.start({ env, modules: { '500-ids': await layer(folder) } });
    await act(daemon, async (id, cmd) => {
      const { json } = await daemon.request('POST', `${sandboxes}/${id}/exec`, { cmd });
      assert.equal(json.exit_code, 0, `${cmd}: ${json.stderr}`);
      return String(json.stdout).trim();
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function create(daemon: TestDaemon, id: string): Promise<void> {
  const body = { id, owner: 'a', layers: '000-base-test,500-ids' };
  const { status, text } = await daemon.request('POST', sandboxes, body);
  assert.equal(status, 201, text);
}

test('pipes that one sandbox has are not taken from another’s', { skip }, async () => {
  await withDaemon({}, async (daemon, run) => {
    await create(daemon, 'greedy');
    await create(daemon, 'neighbour');
    const greedy = Number(await run('greedy', '/counted pipes'));
    assert.ok(greedy > 8, `${greedy} pipes of a mebibyte`);
    assert.equal(Number(await run('neighbour', '/counted pipes')), greedy);
  });
});

test('where all have one range doctor says what is weaker', {
  skip: isOnVms ? 'a microVM has the pipes of a kernel of its own' : skip,
}, async () => {
  await withDaemon({ SQUASH_IDS: 'shared' }, async (daemon, run) => {
    await create(daemon, 'greedy');
    await create(daemon, 'neighbour');
    assert.ok(Number(await run('greedy', '/counted pipes')) > 8);
    assert.equal(Number(await run('neighbour', '/counted pipes')), 0);
    const { json } = await daemon.request('GET', '/v1/info');
    const row = json.host.find((each: { name: string }) => each.name === 'subordinate_ids');
    assert.equal(row.state, 'weaker');
    assert.match(row.weaker, /one account for all sandboxes/);
  });
});

const owners = 'stat -c "%n %u:%g %a" /srv/theirs /srv/copied /srv/new /root/own | sort';

for (const upper of ['directory', 'image', 'tmpfs']) {
  test(`files keep their owners from range to range with ${upper} uppers`, { skip }, async () => {
    await withDaemon({ SQUASH_UPPER: upper }, async (daemon, run) => {
      await create(daemon, 'first');
      await run(
        'first',
        'cp -p /srv/theirs /srv/copied; echo more >>/srv/theirs; touch /srv/new /root/own; chown 7:8 /srv/new; chmod 4750 /srv/new',
      );
      const before = await run('first', owners);
      assert.equal(
        before.replaceAll('\n', ', '),
        '/root/own 0:0 644, /srv/copied 1000:1000 644, /srv/new 7:8 4750, /srv/theirs 1000:1000 644',
      );
      const saved = await daemon.request('POST', `${sandboxes}/first/snapshot`, { label: 'l' });
      assert.ok(saved.status < 300, saved.text);
      await create(daemon, 'between');
      const restored = await daemon.request('POST', `${sandboxes}/first/restore`, { label: 'l' });
      assert.ok(restored.status < 300, restored.text);
      assert.equal(await run('first', owners), before);
      assert.equal(await run('first', 'su -s /bin/sh nobody -c "cat /srv/new" 2>&1 | grep -c denied'), '1');
      // Within a guest all ids are its own.
      if (isOnVms) return;
      const map = 'tr -s " " </proc/self/uid_map';
      assert.notEqual(await run('first', map), await run('between', map));
    });
  });
}

// What is tried when a launcher starts needs room; a launcher that finds none serves as long as any other.
test('a launcher that starts on a full disk gives sandboxes ids of their own', {
  skip: isOnVms ? 'a microVM has a module that is larger than this disk' : skip,
}, async () => {
  using disk = smallExt4(96 * 1_048_576);
  await using daemon = await TestDaemon.start({ parent: disk.path, env: { SQUASH_UPPER: 'tmpfs' } });
  const launcher = ({ command }: { readonly command: string }): boolean =>
    command.includes('squash-launch resident');
  const before = processesOf(daemon.dataDir).find(launcher)?.pid;
  disk.fill();
  signalAll(daemon.dataDir, 'SIGKILL', launcher);
  await waitFor('another launcher', () => {
    const now = processesOf(daemon.dataDir).find(launcher)?.pid;
    return now !== undefined && now !== before;
  });
  await waitFor('all to be well', async () => {
    const { json } = await daemon.request('GET', '/cgi-bin/health').catch(() => ({ json: undefined }));
    return (
      json !== undefined &&
      !(json.problems ?? []).some(({ code }: { code: string }) => code === 'launcher_unavailable')
    );
  });
  const { json } = await daemon.request('GET', '/v1/info');
  const row = json.host.find((each: { name: string }) => each.name === 'subordinate_ids');
  assert.equal(row.state, 'ok', JSON.stringify(row));
  disk.free();
});
