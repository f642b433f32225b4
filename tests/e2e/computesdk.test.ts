/** ComputeSDK's own `compute` with Squash as its provider, against a real daemon. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { squash } from '@squash/computesdk';
import { Squash } from '@squash/sdk';
import { compute } from 'computesdk';
import { TestDaemon } from '../support/daemon.ts';

test('compute makes a sandbox, works in it, goes back to a snapshot, and destroys it', async () => {
  await using daemon = await TestDaemon.start();
  const client = new Squash({ url: daemon.url });
  const create = { from: { layers: ['000-base-test'] }, policy: { allow: ['none'] } };
  const { sandbox: sandboxes, snapshot: snapshots } = compute({
    provider: squash({ squash: client, create }),
  });

  const box = await sandboxes.create({
    envs: { WHO: 'kim' },
    metadata: { team: 'core', run: 7 },
    timeout: 600_000,
  });
  const info = await box.getInfo();
  assert.deepEqual(
    [info.status, info.timeout, info.metadata],
    ['running', 600_000, { run: '7', team: 'core' }],
  );
  const failed = await box.runCommand('echo "$WHO"; echo bad >&2; exit 3', { cwd: '/tmp' });
  assert.deepEqual([failed.stdout, failed.stderr, failed.exitCode], ['kim\n', 'bad\n', 3]);
  let heard = '';
  const streamed = await box.runCommand('echo one; sleep 0.1; echo two', {
    onStdout: (text) => (heard += text),
  });
  assert.deepEqual([heard, streamed.stdout, streamed.exitCode], ['one\ntwo\n', 'one\ntwo\n', 0]);

  const files = box.filesystem;
  await files.writeFile('/root/a/b.txt', 'text');
  await files.mkdir('/root/a/c');
  assert.deepEqual(
    (await files.readdir('/root/a')).map(({ name, type }) => [name, type]),
    [
      ['b.txt', 'file'],
      ['c', 'directory'],
    ],
  );
  const { id } = await snapshots.create(box.sandboxId, { name: 'clean' });
  await files.remove('/root/a');
  assert.equal(await files.exists('/root/a/b.txt'), false);
  const copy = await sandboxes.create({ snapshotId: id });
  assert.equal(await copy.filesystem.readFile('/root/a/b.txt'), 'text');
  assert.ok((await snapshots.list()).some((each) => each.id === id));
  await snapshots.delete(id);

  await box.runCommand('while true; do printf "HTTP/1.0 200 OK\\r\\n\\r\\nhello" | nc -l -p 3000; done', {
    background: true,
  });
  assert.match(await box.getUrl({ port: 3000 }), /squash_token=/);
  assert.equal((await sandboxes.list()).length, 2);
  assert.equal((await sandboxes.getById(copy.sandboxId))?.sandboxId, copy.sandboxId);
  await copy.destroy();
  await sandboxes.destroy(box.sandboxId);
  assert.equal(await sandboxes.getById(box.sandboxId), null);
  client.close();
});
