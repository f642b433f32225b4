/** Parts of a later release that this daemon finds and can't work with: it says so, and harms nothing. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, readdirSync, renameSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { encodeFields } from '@squash/contract/guest/codec';
import type { JobInfo } from '@squash/contract/exec';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { squash } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { boxPath, output, sandboxesPath } from './model.ts';

/** PID 1's place taken by one that says this of itself. */
async function strangeGuest(path: string, protocol: number): Promise<AsyncDisposable> {
  const answer = encodeFields('ok', [
    ['protocol', protocol],
    ['running', 1],
    ['pid', 1],
  ]);
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.once('data', () => socket.write(answer));
  });
  server.listen(path);
  await once(server, 'listening');
  chmodSync(path, 0o666);
  return server;
}

test('a sandbox whose PID 1 speaks a later protocol refuses with the remedy, and goes on with a daemon that knows it', async () => {
  await using daemon = await TestDaemon.start();
  await daemon.call('POST', sandboxesPath, { id: 'dev', memory_mb: 64 });
  await output(daemon, 'dev', 'echo kept > /root/file');
  const { job_id } = (await daemon.call('POST', boxPath('dev', '/exec-bg'), { cmd: 'sleep 600' })) as JobInfo;
  await daemon.kill();
  const sockets = join(daemon.dataDir, 'run/g');
  const name = readdirSync(sockets).find((each) => /^\d+\.sock$/.test(each)) ?? '';
  const path = join(sockets, name);
  renameSync(path, `${path}.kept`);
  {
    await using _strange = await strangeGuest(path, 2);
    await daemon.start();
    const info = (await daemon.call('GET', boxPath('dev'))) as SandboxInfo;
    assert.equal(info.state, 'failed');
    const { status, text } = await daemon.request('POST', boxPath('dev', '/exec'), { cmd: 'true' });
    assert.equal(status, 400);
    assert.match(text, /sandbox_not_ready/);
    const { stderr } = await squash(daemon, ['exec', 'dev', '--', 'true']);
    assert.match(stderr, /its PID 1 speaks protocol 2, .*squash stop --all, squash serve/);
    await daemon.kill();
  }
  renameSync(`${path}.kept`, path);
  await daemon.start();
  assert.equal(await output(daemon, 'dev', 'cat /root/file'), 'kept\n');
  const job = (await daemon.call('GET', boxPath('dev', `/jobs/${job_id}`))) as JobInfo;
  assert.equal(job.status, 'running');
});
