/** Images of sandboxes: what one was made of, and what was written in it as one more layer. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Image } from '@squash/contract/image';
import { ApiClient } from '../support/api-client.ts';
import { squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';

let daemon: TestDaemon;
let api: ApiClient;

before(async () => {
  daemon = await TestDaemon.start();
  api = new ApiClient(daemon);
});
after(() => daemon[Symbol.asyncDispose]());

const cli = (...words: string[]): Promise<string> => squashOk(daemon, words);
const commit = async (...words: string[]): Promise<Image> =>
  JSON.parse(await cli('image', 'commit', '--json', ...words)) as Image;

async function idOf(name: string): Promise<string> {
  const { items } = (await api.get(`/v1/sandboxes?name=${name}`)).json as { items: { id: string }[] };
  return items[0]?.id ?? '';
}

test('a sandbox of modules becomes an image, and one of that with a change another with one layer more', async () => {
  await cli('create', 'first', '--layers', '000-base-test');
  await cli(
    'exec',
    'first',
    '--',
    'sh',
    '-c',
    'mkdir -p /opt/a; echo one >/opt/a/kept; echo two >/opt/a/gone; ln /opt/a/kept /opt/a/hard',
  );
  const first = await commit(
    'first',
    'made/first:1',
    '--env',
    'STEP=one',
    '--workdir',
    '/opt/a',
    '--cmd',
    '["cat","kept"]',
  );
  assert.deepEqual([first.name, first.source, first.digest], ['docker.io/made/first:1', 'sandbox', null]);
  assert.deepEqual([first.layers, first.modules.length], [2, 2]);
  assert.equal(await cli('run', '--image', 'made/first:1'), 'one');

  await cli('create', '--name', 'second', '--image', 'made/first:1');
  const id = await idOf('second');
  await cli(
    'exec',
    id,
    '--',
    'sh',
    '-c',
    'rm gone; rm -r /opt/a/hard; echo $STEP >/opt/a/step; chmod 600 kept',
  );
  const second = await commit(id, 'made/second', '--label', 'step=two', '--env', 'MORE=yes');
  assert.deepEqual(second.modules.slice(0, 2), first.modules);
  assert.equal(second.modules.length, 3);
  const { env, cmd, workdir, labels } = second;
  assert.deepEqual(
    { env, cmd, workdir, labels },
    {
      env: { STEP: 'one', MORE: 'yes' },
      cmd: ['cat', 'kept'],
      workdir: '/opt/a',
      labels: { step: 'two' },
    },
  );
  const look = 'ls; stat -c %a kept; cat step; echo $MORE';
  assert.equal(await cli('run', '--image', 'made/second', 'sh', '-c', look), 'kept\nstep\n600\none\nyes');
  // So it does by way of a file: the podman and the registry of other tests are root's.
  const directory = mkdtempSync(join(tmpdir(), 'squash-commit-'));
  try {
    await cli('image', 'export', 'made/second', join(directory, 'image.tar'));
    await cli('image', 'import', join(directory, 'image.tar'), '--name', 'made/back');
    assert.equal(await cli('run', '--image', 'made/back', 'sh', '-c', look), 'kept\nstep\n600\none\nyes');
    await cli('module', 'from-oci', join(directory, 'image.tar'), '300-second');
    await cli('create', 'flat', '--layers', '000-base-test,300-second');
    assert.equal(await cli('exec', 'flat', '--', 'ls', '/opt/a'), 'kept\nstep');
  } finally {
    rmSync(directory, { recursive: true });
  }
  // The image goes, and what was made of it stays.
  await cli('image', 'rm', 'made/first:1');
  assert.equal(await cli('exec', id, '--', 'cat', '/opt/a/kept'), 'one');
});

test('nothing written is no layer; a snapshot, and what was restored before, is all there', async () => {
  await cli('create', 'third', '--layers', '000-base-test');
  const start = await commit('third', 'made/start');
  await cli('create', '--name', 'still', '--image', 'made/start');
  const still = await commit(await idOf('still'), 'made/still');
  assert.deepEqual(still.modules, start.modules);
  await cli('exec', 'third', '--', 'sh', '-c', 'echo early >/early');
  await cli('snapshot', 'third', 'early');
  await cli('restore', 'third', 'early');
  await cli('exec', 'third', '--', 'sh', '-c', 'echo late >/late');
  const both = await commit('third', 'made/both');
  assert.equal(await cli('run', '--image', 'made/both', 'cat', '/early', '/late'), 'early\nlate');
  const early = await commit('third', 'made/early', '--snapshot', 'early');
  assert.deepEqual([both.layers, early.layers], [2, 2]);
  const looked = await squash(daemon, ['run', '--image', 'made/early', 'cat', '/early', '/late']);
  assert.deepEqual([looked.stdout.toString(), looked.code], ['early\n', 1]);
  // Eight at once are none too many.
  const names = Array.from({ length: 8 }, (_, at) => `made/at-once:${at}`);
  const made = await Promise.all(names.map((name) => commit('third', name)));
  assert.deepEqual(
    made.map(({ name }) => name),
    names.map((name) => `docker.io/${name}`),
  );
  // What only the one had that was called so before is gone with it.
  const own = early.modules.at(-1) ?? '';
  assert.ok(existsSync(join(daemon.dataDir, 'modules', `${own}.squashfs`)));
  await commit('third', 'made/early');
  assert.ok(!existsSync(join(daemon.dataDir, 'modules', `${own}.squashfs`)));
  const { json } = await api.get('/v1/sandboxes/third/snapshots');
  assert.deepEqual(
    json.items.map(({ label }: { label: string }) => label),
    ['early'],
  );
});

test('what can’t be an image is refused, and a step of a build is seen only by who asks for it', async () => {
  const refused = async (body: object): Promise<unknown> =>
    (await api.post('/v1/images/commit', body)).json.code;
  assert.equal(await refused({ sandbox: 'nobody', name: 'made/x' }), 'sandbox_not_found');
  assert.equal(await refused({ sandbox: 'third', name: 'made/x', snapshot: 'none' }), 'snapshot_not_found');
  assert.equal(await refused({ sandbox: 'third', name: `x@sha256:${'0'.repeat(64)}` }), 'invalid_request');
  assert.equal(await refused({ sandbox: 'third', name: 'x', changes: { workdir: 'a' } }), 'invalid_request');
  assert.equal((await squash(daemon, ['image', 'commit', 'third', 'x', '--cmd', 'sh'])).code, 2);
  await commit('third', 'squash.build/abc');
  assert.doesNotMatch(await cli('image', 'ls', '-q'), /squash\.build/);
  assert.match(await cli('image', 'ls', '-q', '--all'), /^squash\.build\/abc:latest$/m);
  assert.equal(
    (await api.post('/v1/images', { reference: 'squash.build/gone' })).json.code,
    'image_not_found',
  );
  await cli('image', 'rm', 'squash.build/abc');
});
