/**
 * The daemon dies in every step of every operation on volumes. The next one has the whole of it or nothing: rows, directories, what
 * sandboxes say is attached and what is attached are the same.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { MountInfo, VolumeInfo } from '@squash/contract/volume';
import type { FaultPoint } from '../../host/src/sandbox/fault.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const boxes = '/cgi-bin/api/sandboxes';
const mounts = '/v1/sandboxes/box/mounts';
let daemon: TestDaemon;

before(async () => {
  daemon = await TestDaemon.start();
  await daemon.call('POST', boxes, { id: 'box', layers: '000-base-test' });
  if (isOnVms) await daemon.call('POST', '/v1/sandboxes/box/pause', { keep: 'files' });
  await daemon.call('POST', '/v1/volumes', { name: 'data' });
});

after(() => daemon[Symbol.asyncDispose]());

/** Asks with a daemon that dies at this point; another one answers when this returns. */
async function dyingAt(
  point: FaultPoint,
  method: string,
  [path, body]: readonly [string, unknown?],
): Promise<void> {
  await daemon.kill();
  await daemon.start({ SQUASH_FAULT_POINT: point });
  await daemon.request(method, path, body).catch(() => undefined);
  // A point behind the answer is reached a moment after it.
  await waitFor(`a death at ${point}`, () => daemon.pid === undefined);
  await daemon.kill();
  await daemon.start();
}

async function volumes(): Promise<readonly VolumeInfo[]> {
  return (await daemon.call('GET', '/v1/volumes')).items;
}

async function attached(): Promise<readonly MountInfo[]> {
  return (await daemon.call('GET', mounts)).items;
}

/** What is in the sandbox; a microVM, whose mounts are changed while it is stopped, runs for this alone. */
async function inside(cmd: string): Promise<string> {
  if (isOnVms) await daemon.call('POST', '/v1/sandboxes/box/resume');
  const { stdout } = await daemon.call('POST', `${boxes}/box/exec`, { cmd });
  if (isOnVms) await daemon.call('POST', '/v1/sandboxes/box/pause', { keep: 'files' });
  return stdout;
}

async function expectWhole(): Promise<void> {
  const all = await volumes();
  const list = (name: string): readonly string[] => readdirSync(join(daemon.dataDir, name)).sort();
  await waitFor('nothing left over', () => list('trash').length + list('tmp').length === 0);
  assert.deepEqual(list('volumes'), all.map(({ id }) => id).sort());
  const said = (await attached()).map(({ id, path }) => `${id} ${path}`);
  const ofVolumes = all.flatMap(({ attached_to }) => attached_to.map(({ mount }) => mount));
  assert.deepEqual(
    ofVolumes,
    said.map((each) => each.split(' ')[0]),
  );
  const there = await inside('grep -c " /data " /proc/self/mountinfo');
  assert.equal(Number(there), said.length, 'mounts that are there');
}

for (const point of ['volume.inserted', 'volume.made', 'volume.committed'] as const) {
  for (const what of ['create', 'copy'] as const) {
    test(`a volume is whole or gone when the daemon dies at ${point} of a ${what}`, async () => {
      const body = { name: 'new', ...(what === 'copy' && { from: 'data' }) };
      await dyingAt(point, 'POST', ['/v1/volumes', body]);
      await expectWhole();
      const isThere = (await volumes()).some(({ name }) => name === 'new');
      assert.equal(isThere, point === 'volume.committed');
      if (!isThere) await daemon.call('POST', '/v1/volumes', body);
      await daemon.call('DELETE', '/v1/volumes/new');
      await expectWhole();
    });
  }
}

for (const point of ['volume-remove.marked', 'volume-remove.trashed'] as const) {
  test(`a volume is gone when the daemon dies at ${point}`, async () => {
    await daemon.call('POST', '/v1/volumes', { name: 'old' });
    await dyingAt(point, 'DELETE', ['/v1/volumes/old']);
    await expectWhole();
    assert.deepEqual(
      (await volumes()).map(({ name }) => name),
      ['data'],
    );
  });
}

for (const point of ['mount.committed', 'mount.attached'] as const) {
  test(`a mount is attached when the daemon dies at ${point}`, async () => {
    await dyingAt(point, 'POST', [mounts, { volume: 'data', path: '/data' }]);
    await expectWhole();
    const [mount] = await attached();
    assert.ok(mount !== undefined);
    await daemon.call('DELETE', `${mounts}/${mount.id}`);
    await expectWhole();
  });
}

for (const point of ['unmount.detached', 'unmount.committed'] as const) {
  test(`a mount is attached or not when the daemon dies at ${point}, as the sandbox says`, async () => {
    const { id } = await daemon.call('POST', mounts, { volume: 'data', path: '/data' });
    await dyingAt(point, 'DELETE', [`${mounts}/${id}`]);
    await expectWhole();
    const left = await attached();
    assert.equal(left.length, point === 'unmount.detached' ? 1 : 0);
    for (const each of left) await daemon.call('DELETE', `${mounts}/${each.id}`);
  });
}

test('a volume comes back with its sandbox when launcher, sandbox and daemon are gone', async () => {
  await daemon.call('POST', mounts, { volume: 'data', path: '/data' });
  if (isOnVms) await daemon.call('POST', '/v1/sandboxes/box/resume');
  await daemon.call('POST', `${boxes}/box/exec`, { cmd: 'echo kept >/data/file; sync /data/file || sync' });
  await daemon.cutPower();
  await daemon.start();
  await expectWhole();
  assert.equal(await inside('cat /data/file'), 'kept\n');
});
