/** Volumes: what is written in one is there after the sandbox is gone, for one writer or many readers, through every kind of restart. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { MountInfo, VolumeInfo } from '@squash/contract/volume';
import { ApiClient } from '../support/api-client.ts';
import { atRest } from '../support/at-rest.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const boxes = '/cgi-bin/api/sandboxes';

async function make(daemon: TestDaemon, id: string): Promise<void> {
  await daemon.call('POST', boxes, { id, layers: '000-base-test' });
}

async function sh(daemon: TestDaemon, id: string, cmd: string): Promise<string> {
  const { exit_code, stdout, stderr } = await daemon.call('POST', `${boxes}/${id}/exec`, { cmd });
  assert.equal(exit_code, 0, `${cmd}: ${stdout}${stderr}`);
  return stdout;
}

async function attach(daemon: TestDaemon, id: string, wish: unknown): Promise<MountInfo> {
  const { status, json, text } = await atRest(daemon, id, () =>
    daemon.request('POST', `/v1/sandboxes/${id}/mounts`, wish),
  );
  assert.equal(status, 201, text);
  return json;
}

async function detach(daemon: TestDaemon, id: string, { id: mount }: MountInfo): Promise<void> {
  await atRest(daemon, id, () => daemon.call('DELETE', `/v1/sandboxes/${id}/mounts/${mount}`));
}

async function refused(
  daemon: TestDaemon,
  [method, path, body]: readonly [string, string, unknown?],
): Promise<string> {
  const { status, json, text } = await daemon.request(method, path, body);
  assert.ok(status >= 400, text);
  return json.code;
}

async function volume(daemon: TestDaemon, name: string, more: object = {}): Promise<VolumeInfo> {
  const { status, json, text } = await daemon.request('POST', '/v1/volumes', { name, ...more });
  assert.equal(status, 201, text);
  return json;
}

test('a volume keeps what was written when its sandbox restarts, is restored, activated or destroyed', async () => {
  await using daemon = await TestDaemon.start();
  await make(daemon, 'one');
  const { id, size_mb, warnings } = await volume(daemon, 'data');
  assert.equal(size_mb === null, warnings.length === 1);
  const mount = await attach(daemon, 'one', { volume: 'data', path: '/srv/data' });
  assert.deepEqual({ ...mount, id: '' }, { id: '', volume: id, host: null, path: '/srv/data', mode: 'rw' });
  await sh(daemon, 'one', 'echo 1 >/srv/data/file; mkdir /srv/data/dir; ln -s file /srv/data/link');
  await daemon.call('POST', `${boxes}/one/snapshot`, { label: 'a' });
  await daemon.call('POST', `${boxes}/one/restore`, { label: 'a' });
  assert.equal(await sh(daemon, 'one', 'cat /srv/data/link; echo 2 >/srv/data/file'), '1\n');
  await daemon.request('POST', `${boxes}/one/exec`, { cmd: 'kill -9 1; kill -9 -1' });
  assert.equal(await sh(daemon, 'one', 'cat /srv/data/file'), '2\n');
  await daemon.kill();
  await daemon.start();
  assert.equal(await sh(daemon, 'one', 'cat /srv/data/file'), '2\n');
  await daemon.stop();
  await daemon.start();
  assert.equal(await sh(daemon, 'one', 'cat /srv/data/file'), '2\n');
  assert.equal(await refused(daemon, ['DELETE', '/v1/volumes/data']), 'volume_in_use');
  await daemon.call('DELETE', `${boxes}/one`);
  await make(daemon, 'two');
  await attach(daemon, 'two', { volume: id, path: '/mnt/x/y', mode: 'ro' });
  assert.equal(await sh(daemon, 'two', 'cat /mnt/x/y/file; ! touch /mnt/x/y/new 2>/dev/null'), '2\n');
  await daemon.call('DELETE', `${boxes}/two`);
  const { items } = await daemon.call('GET', '/v1/events?type=mount.attached,mount.detached');
  assert.deepEqual(
    items.map(
      ({ sandbox, type, data }: { sandbox: string; type: string; data: MountInfo & { mount: string } }) => [
        sandbox,
        type,
        data.volume,
        data.mode,
      ],
    ),
    [
      ['one', 'mount.attached', id, 'rw'],
      ['two', 'mount.attached', id, 'ro'],
    ],
  );
  await daemon.call('DELETE', '/v1/volumes/data');
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'volumes')), []);
});

const keepsMounts = isOnVms ? 'a microVM keeps the mounts that it has started with' : false;

test('a volume is attached once when a program moved the directory above it and the daemon starts again', {
  skip: keepsMounts,
}, async () => {
  await using daemon = await TestDaemon.start();
  await make(daemon, 'one');
  await volume(daemon, 'data');
  const mount = await attach(daemon, 'one', { volume: 'data', path: '/srv/a/data' });
  await sh(daemon, 'one', 'mv /srv/a /srv/b; mkdir -p /srv/a/data; echo 1 >/srv/b/data/file');
  await daemon.kill();
  await daemon.start();
  assert.equal(await sh(daemon, 'one', 'ls /srv/a/data; grep -c " /srv/" /proc/self/mountinfo'), '1\n');
  // Nor is what it put in its place a reason to end it.
  await sh(daemon, 'one', 'rm -r /srv/a; ln -s b /srv/a');
  await daemon.kill();
  await daemon.start();
  assert.equal(await sh(daemon, 'one', 'cat /srv/b/data/file; rm /srv/a; mkdir -p /srv/a/data'), '1\n');
  // What is told free is free: nobody has it at a place that was forgotten.
  assert.equal(await refused(daemon, ['DELETE', `/v1/sandboxes/one/mounts/${mount.id}`]), 'mount_busy');
  assert.equal(
    await refused(daemon, ['POST', '/v1/sandboxes/one/mounts', { volume: 'data', path: '/x' }]),
    'volume_in_use',
  );
  await daemon.call('POST', '/v1/sandboxes/one/pause', { keep: 'files' });
  await daemon.call('POST', '/v1/sandboxes/one/resume');
  assert.equal(await sh(daemon, 'one', 'cat /srv/a/data/file'), '1\n');
  await daemon.call('DELETE', `/v1/sandboxes/one/mounts/${mount.id}`);
});

test('a volume is not detached where a command stands in it, and is when that has ended', {
  skip: keepsMounts,
}, async () => {
  await using daemon = await TestDaemon.start();
  await make(daemon, 'one');
  await volume(daemon, 'data');
  const first = await attach(daemon, 'one', { volume: 'data', path: '/data' });
  await sh(daemon, 'one', 'mkdir /data/sub');
  await daemon.call('POST', `${boxes}/one/exec-bg`, { cmd: 'cd /data/sub; exec sleep 1000' });
  await waitFor('the command to stand there', async () => {
    const { json } = await daemon.request('POST', `${boxes}/one/exec`, { cmd: 'ls -l /proc/[0-9]*/cwd' });
    return json.stdout.includes('/data/sub');
  });
  assert.equal(await refused(daemon, ['DELETE', `/v1/sandboxes/one/mounts/${first.id}`]), 'mount_busy');
  await sh(daemon, 'one', 'kill $(pidof sleep); while pidof sleep; do :; done');
  await detach(daemon, 'one', first);
});

test('one sandbox writes to a volume or several read it when more ask for it, and a detach gives it free', async () => {
  await using daemon = await TestDaemon.start();
  for (const id of ['one', 'two']) await make(daemon, id);
  await volume(daemon, 'data');
  const toTwo = ['POST', '/v1/sandboxes/two/mounts'] as const;
  const toTwoRefused = async (wish: object): Promise<string> =>
    await atRest(daemon, 'two', () => refused(daemon, [...toTwo, { volume: 'data', ...wish }]));
  const first = await attach(daemon, 'one', { volume: 'data', path: '/data' });
  await sh(daemon, 'one', 'echo 1 >/data/file');
  for (const mode of ['ro', 'rw']) assert.equal(await toTwoRefused({ path: '/data', mode }), 'volume_in_use');
  await detach(daemon, 'one', first);
  assert.equal(await sh(daemon, 'one', 'ls -A /data; grep -c " /data " /proc/self/mountinfo || true'), '0\n');
  const again = ['DELETE', `/v1/sandboxes/one/mounts/${first.id}`] as const;
  assert.equal(await refused(daemon, [...again]), 'mount_not_found');
  await attach(daemon, 'one', { volume: 'data', path: '/data', mode: 'ro' });
  await attach(daemon, 'two', { volume: 'data', path: '/data', mode: 'ro' });
  for (const id of ['one', 'two']) assert.equal(await sh(daemon, id, 'cat /data/file'), '1\n');
  assert.equal(await toTwoRefused({ path: '/more' }), 'volume_in_use');
  assert.equal(await toTwoRefused({ path: '/data', mode: 'ro' }), 'mount_exists');
  const { json } = await daemon.request('GET', '/v1/volumes/data');
  assert.deepEqual(
    json.attached_to.map((each: { sandbox: string; mode: string }) => [each.sandbox, each.mode]),
    [
      ['one', 'ro'],
      ['two', 'ro'],
    ],
  );
});

test('a volume is copied, with owners, modes and links, when a snapshot of it or a volume from that is made', async () => {
  await using daemon = await TestDaemon.start();
  await make(daemon, 'one');
  await volume(daemon, 'data', { labels: { team: 'core' } });
  const mount = await attach(daemon, 'one', { volume: 'data', path: '/data' });
  await sh(
    daemon,
    'one',
    'cd /data; echo 1 >file; chmod 640 file; ln -s file link; ln file hard; mkdir -p a/b; chown 3:4 a || true',
  );
  const copy = ['POST', '/v1/volumes/data/snapshots', { name: 'monday' }] as const;
  assert.equal(await refused(daemon, [...copy]), 'volume_in_use');
  const listing = 'ls -lnR . | grep -v total';
  const before = await sh(daemon, 'one', `cd /data; ${listing}`);
  await detach(daemon, 'one', mount);
  const { id, snapshot_of } = await daemon.call(...copy);
  assert.equal(snapshot_of, (await daemon.call('GET', '/v1/volumes/data')).id);
  assert.equal(await refused(daemon, [...copy]), 'volume_exists');
  const wish = { volume: 'monday', path: '/monday', mode: 'rw' };
  assert.equal(
    await atRest(daemon, 'one', () => refused(daemon, ['POST', '/v1/sandboxes/one/mounts', wish])),
    'mount_refused',
  );
  await attach(daemon, 'one', { volume: id, path: '/monday' });
  assert.equal(await sh(daemon, 'one', `cd /monday; ${listing}`), before);
  await daemon.call('DELETE', `${boxes}/one`);
  await volume(daemon, 'again', { from: 'monday' });
  await make(daemon, 'two');
  await attach(daemon, 'two', { volume: 'again', path: '/again' });
  assert.equal(await sh(daemon, 'two', `cd /again; ${listing}; echo 2 >file`), before);
  const page = await daemon.call('GET', '/v1/volumes?limit=2');
  const rest = await daemon.call('GET', `/v1/volumes?cursor=${page.next}`);
  assert.deepEqual([page.items.length, rest.items.length, rest.next], [2, 1, null]);
  const labelled = await daemon.call('GET', '/v1/volumes?label=team%3Dcore');
  assert.deepEqual(
    labelled.items.map(({ name }: VolumeInfo) => name),
    ['data'],
  );
});

test('a volume holds what its size says when a sandbox writes more, or its size is refused', async () => {
  await using daemon = await TestDaemon.start();
  await make(daemon, 'one');
  const wish = { name: 'small', size_mb: 32 };
  const { status, json } = await daemon.request('POST', '/v1/volumes', wish);
  if (status !== 201) {
    assert.equal(json.code, 'limits_unenforceable');
    assert.deepEqual((await daemon.call('GET', '/v1/volumes')).items, []);
    return;
  }
  assert.deepEqual([json.size_mb, json.warnings], [32, []]);
  await attach(daemon, 'one', { volume: 'small', path: '/small' });
  const wrote = await sh(
    daemon,
    'one',
    'dd if=/dev/zero of=/small/file bs=1M count=64 2>&1 || true; du -k /small/file | cut -f1',
  );
  assert.match(wrote, /No space left|Disk quota exceeded/);
  const kib = Number(wrote.trim().split('\n').at(-1));
  assert.ok(kib > 28 * 1024 && kib <= 36 * 1024, `${kib} KiB`);
  await sh(daemon, 'one', 'rm /small/file; echo fits >/small/other');
});

test('a mount is refused when its path is a link or a file', {
  skip: isOnVms ? 'a microVM has a disk that nobody looks into while it is stopped' : false,
}, async () => {
  await using daemon = await TestDaemon.start();
  await make(daemon, 'one');
  await volume(daemon, 'data');
  await sh(daemon, 'one', 'ln -s /proc /link; echo >/file');
  const wish = (path: string) => ['POST', '/v1/sandboxes/one/mounts', { volume: 'data', path }] as const;
  for (const path of ['/link', '/link/x', '/file', '/file/x'])
    assert.equal(await refused(daemon, [...wish(path)]), 'mount_refused', path);
});

test('a mount is refused when its path is the system\u2019s, and a mount in a mount comes back', async () => {
  await using daemon = await TestDaemon.start();
  await make(daemon, 'one');
  for (const name of ['outer', 'inner']) await volume(daemon, name);
  const wish = (path: string) => ['POST', '/v1/sandboxes/one/mounts', { volume: 'inner', path }] as const;
  for (const path of ['/proc', '/proc/1', '/sys', '/dev/shm', '/', '/a/../b', 'a', '/a/', '/etc/hosts'])
    assert.equal(await refused(daemon, [...wish(path)]), 'invalid_request', path);
  const none = { path: '/x' };
  assert.equal(await refused(daemon, ['POST', '/v1/sandboxes/one/mounts', none]), 'invalid_request');
  assert.equal(
    await refused(daemon, ['POST', '/v1/sandboxes/one/mounts', { ...none, volume: 'no' }]),
    'volume_not_found',
  );
  assert.deepEqual((await daemon.call('GET', '/v1/sandboxes/one/mounts')).items, []);
  await attach(daemon, 'one', { volume: 'outer', path: '/o' });
  await attach(daemon, 'one', { volume: 'inner', path: '/o/deep/i' });
  await sh(daemon, 'one', 'echo outer >/o/file; echo inner >/o/deep/i/file');
  await daemon.stop();
  await daemon.start();
  assert.equal(await sh(daemon, 'one', 'cat /o/file /o/deep/i/file'), 'outer\ninner\n');
});

test('volumes and what is attached come back when the database is lost and repaired', async () => {
  await using daemon = await TestDaemon.start();
  await make(daemon, 'one');
  const { id } = await volume(daemon, 'data', { labels: { team: 'core' } });
  await attach(daemon, 'one', { volume: 'data', path: '/data' });
  await sh(daemon, 'one', 'echo kept >/data/file');
  await daemon.stop();
  await daemon.forgetDatabase();
  await daemon.repair();
  await daemon.start();
  assert.equal(await sh(daemon, 'one', 'cat /data/file'), 'kept\n');
  const found = await daemon.call('GET', '/v1/volumes/data');
  assert.deepEqual([found.id, found.labels, found.attached_to.length], [id, { team: 'core' }, 1]);
});

test('a create of /v1 has its mounts from the first command on, or makes nothing where one is refused', async () => {
  await using daemon = await TestDaemon.start();
  await volume(daemon, 'data');
  const from = { layers: ['000-base-test'] };
  const wish = { volume: 'data', path: '/data' };
  const create = async (mounts: readonly object[]) =>
    daemon.request('POST', '/v1/sandboxes', { from, mounts });
  const { status, json: one, text } = await create([wish]);
  assert.equal(status, 201, text);
  await sh(daemon, one.id, 'echo 1 >/data/file');
  for (const [mounts, code] of [
    [[wish], 'volume_in_use'],
    [[{ volume: 'none', path: '/x' }], 'volume_not_found'],
    [[{ host: '/srv', path: '/x' }], 'host_directory_refused'],
    [[{ ...wish, path: '/bin/busybox' }], 'volume_in_use'],
    [[{ path: '/x' }], 'invalid_request'],
  ] as const)
    assert.equal((await create(mounts)).json.code, code);
  await daemon.call('POST', `/v1/sandboxes/${one.id}/pause`, { keep: 'files' });
  const [mount] = (await daemon.call('GET', `/v1/sandboxes/${one.id}/mounts`)).items;
  await daemon.call('DELETE', `/v1/sandboxes/${one.id}/mounts/${mount.id}`);
  const twice = [wish, { ...wish, path: '/more' }];
  assert.equal((await create(twice)).json.code, 'volume_in_use');
  assert.equal((await create([{ ...wish, path: '/bin/busybox' }])).json.code, 'mount_refused');
  await attach(daemon, one.id, { ...wish, path: '/again' });
  await daemon.call('POST', `/v1/sandboxes/${one.id}/resume`);
  assert.equal(await sh(daemon, one.id, 'cat /again/file; ls -A /data'), '1\n');
  await daemon.call('POST', `/v1/sandboxes/${one.id}/pause`, { keep: isOnVms ? 'files' : 'memory' });
  const [again] = (await daemon.call('GET', `/v1/sandboxes/${one.id}/mounts`)).items;
  await daemon.call('DELETE', `/v1/sandboxes/${one.id}/mounts/${again.id}`);
  await attach(daemon, one.id, { ...wish, path: '/third', mode: 'ro' });
  await daemon.call('POST', `/v1/sandboxes/${one.id}/resume`);
  assert.equal(await sh(daemon, one.id, 'ls -A /again; cat /third/file'), '1\n');
  assert.equal((await daemon.call('GET', '/v1/sandboxes')).items.length, 1);
});

test('a volume is there for its owner alone, and counts for the owner\u2019s quota', async () => {
  const token = 'the-operator-of-this-test';
  await using daemon = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: token } });
  const api = new ApiClient(daemon);
  const keyOf = async (owner: string, scope = 'manage') => {
    const { token: key } = await daemon.call('POST', '/v1/keys', { name: owner, owner, scope });
    const headers = { authorization: `Bearer ${key}` };
    return (method: string, path: string, body?: unknown) =>
      api.send(method, path, body === undefined ? { headers } : { headers, body });
  };
  const alice = await keyOf('alice');
  const bob = await keyOf('bob');
  const admin = await keyOf('ops', 'admin');
  await admin('POST', '/v1/volumes', { name: 'of-ops' });
  await daemon.call('PUT', '/v1/owners/ops/quota', { disk_mb: 0 });
  assert.equal((await admin('POST', '/v1/volumes', { name: 'more' })).json.code, 'quota_exceeded');
  const ops = await keyOf('ops');
  assert.equal((await ops('GET', '/v1/volumes/of-ops')).status, 200);
  for (const ask of [alice, bob])
    assert.equal((await ask('POST', '/v1/volumes', { name: 'data' })).status, 201);
  const { id } = (await alice('GET', '/v1/volumes/data')).json;
  assert.notEqual((await bob('GET', '/v1/volumes/data')).json.id, id);
  assert.deepEqual((await bob('GET', '/v1/volumes')).json.items.length, 1);
  const { json: box } = await bob('POST', '/v1/sandboxes', { from: { layers: ['000-base-test'] } });
  for (const [method, path, body] of [
    ['GET', `/v1/volumes/${id}`],
    ['DELETE', `/v1/volumes/${id}`],
    ['POST', `/v1/volumes/${id}/snapshots`, { name: 'x' }],
    ['POST', '/v1/volumes', { name: 'x', from: id }],
    ['POST', `/v1/sandboxes/${box.id}/mounts`, { volume: id, path: '/x' }],
    ['POST', '/v1/sandboxes', { mounts: [{ volume: id, path: '/x' }] }],
  ] as const)
    assert.equal((await bob(method, path, body)).json.code, 'volume_not_found', `${method} ${path}`);
  // Nobody chooses what the operator's word means: another's volume has its id alone.
  const named = await daemon.request('DELETE', '/v1/volumes/data');
  assert.deepEqual([named.status, named.json.code, named.text.includes(id)], [404, 'volume_not_found', true]);
  assert.equal((await daemon.call('GET', `/v1/volumes/${id}`)).name, 'data');
  const mounts = [{ volume: 'data', path: '/data' }];
  const hers = await daemon.call('POST', '/v1/sandboxes', {
    owner: 'alice',
    mounts,
    from: { layers: ['000-base-test'] },
  });
  assert.equal((await daemon.call('GET', `/v1/sandboxes/${hers.id}/mounts`)).items[0].volume, id);
  await daemon.call('PUT', '/v1/owners/bob/quota', { disk_mb: 0 });
  assert.equal((await bob('POST', '/v1/volumes', { name: 'more' })).json.code, 'quota_exceeded');
  assert.equal((await alice('POST', '/v1/volumes', { name: 'more' })).status, 201);
});
