/** Snapshots as things of their own: what is refused before it costs anything, and what a removal cuts short. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const boxes = '/cgi-bin/api/sandboxes';
const box = `${boxes}/box`;

async function box1(daemon: TestDaemon): Promise<ApiClient> {
  const api = new ApiClient(daemon);
  const created = await api.post(boxes, { id: 'box', layers: '000-base-test' });
  assert.equal(created.status, 201, created.text);
  return api;
}

async function sh(api: ApiClient, cmd: string): Promise<string> {
  const { json } = await api.post(`${box}/exec`, { cmd });
  assert.equal(json.exit_code, 0, `${cmd}: ${json.stderr}`);
  return json.stdout;
}

test('a snapshot of sparse terabytes is refused by their length before anything is packed', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_UPPER_LIMIT_MB: '1024' } });
  const api = await box1(daemon);
  await sh(api, 'i=0; while [ $i -lt 80 ]; do truncate -s 1000M /hole$i; i=$((i+1)); done');
  const began = performance.now();
  const refused = await api.post(`${box}/snapshot`, { label: 'holes' });
  assert.equal(refused.status, 507, refused.text);
  assert.match(refused.json.error, /longer than 68719476736 bytes together, holes included/);
  assert.ok(performance.now() - began < 10_000);
  await sh(api, 'rm /hole*');
  assert.equal((await api.post(`${box}/snapshot`, { label: 'none' })).status, 200);
});

test('a removal does not wait for the snapshot that is being packed', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_UPPER_LIMIT_MB: '1024' } });
  const api = await box1(daemon);
  // Zeros without room on the disk: mksquashfs reads them for many seconds.
  await sh(api, 'i=0; while [ $i -lt 60 ]; do truncate -s 1000M /hole$i; i=$((i+1)); done');
  const snapshot = api.post(`${box}/snapshot`, { label: 'long' });
  const later = api.post(`${box}/snapshot`, { label: 'later' });
  await waitFor('the packing to begin', () =>
    readdirSync(join(daemon.dataDir, 'tmp')).some((name) => name.startsWith('pack-')),
  );
  const began = performance.now();
  assert.equal((await api.send('DELETE', box)).status, 204);
  assert.ok(performance.now() - began < 5_000, `${performance.now() - began} ms`);
  assert.deepEqual([(await snapshot).status, (await later).status], [404, 404]);
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'sandboxes')), []);
  await waitFor('the work to be gone', () => readdirSync(join(daemon.dataDir, 'tmp')).length === 0);
});
