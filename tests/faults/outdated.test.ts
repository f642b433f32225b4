/** Parts of a later release that this daemon finds and can't work with: it says so, and harms nothing. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { encodeFields } from '@squash/contract/guest/codec';
import type { JobInfo } from '@squash/contract/exec';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { repository } from '../support/base-layer.ts';
import { squash } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';
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

/** What the daemon and the egress process need to run. */
const packages = ['base', 'contract', 'egress', 'groups', 'host', 'installation', 'policy'];
const libraries = ['zod', 'ws', 'croner'];

/** This checkout as a release that knows another protocol than what this one's launcher speaks. */
function strangeRelease(): string {
  // A daemon of root's sees its own folder and nothing beside it.
  const release = mkdtempSync(join(tmpdir(), ownedPrefix('release')));
  chmodSync(release, 0o755);
  for (const name of [...packages, 'package.json', 'native/build'])
    cpSync(join(repository, name), join(release, name), { recursive: true });
  for (const name of libraries)
    cpSync(join(repository, 'node_modules', name), join(release, 'node_modules', name), { recursive: true });
  mkdirSync(join(release, 'node_modules/@squash'));
  for (const name of packages) symlinkSync(join('../..', name), join(release, 'node_modules/@squash', name));
  const frames = join(release, 'contract/src/guest/frames.ts');
  const text = readFileSync(frames, 'utf8');
  const changed = text.replace(/(protocolsKnown: readonly number\[\]) = [^;]+;/, '$1 = [99];');
  assert.notEqual(changed, text);
  writeFileSync(frames, changed);
  return release;
}

async function daemonWithJob(): Promise<{
  readonly daemon: TestDaemon;
  readonly job: () => Promise<JobInfo>;
}> {
  const daemon = await TestDaemon.start();
  await daemon.call('POST', sandboxesPath, { id: 'dev', memory_mb: 64 });
  await output(daemon, 'dev', 'echo kept > /root/file');
  await daemon.call('POST', boxPath('dev', '/snapshot'), { label: 'before' });
  const started = await daemon.call('POST', boxPath('dev', '/exec-bg'), { cmd: 'sleep 600', timeout: 700 });
  const path = boxPath('dev', `/jobs/${(started as JobInfo).job_id}`);
  return { daemon, job: async () => (await daemon.call('GET', path)) as JobInfo };
}

const infoOf = async (daemon: TestDaemon): Promise<SandboxInfo> =>
  (await daemon.call('GET', boxPath('dev'))) as SandboxInfo;

test('sandboxes of a launcher that a daemon does not know refuse with the remedy, and go on with one that knows it', async () => {
  const release = strangeRelease();
  try {
    const { daemon, job } = await daemonWithJob();
    await using _daemon = daemon;
    await daemon.kill();
    daemon.upgrade(release);
    await daemon.start();
    assert.equal((await infoOf(daemon)).state, 'failed');
    const { status, text } = await daemon.request('POST', boxPath('dev', '/exec'), { cmd: 'true' });
    assert.equal(status, 400);
    assert.match(text, /sandbox_not_ready/);
    const { stderr } = await squash(daemon, ['exec', 'dev', '--', 'true']);
    assert.match(stderr, /squash-launch speaks protocol \d+, .*squash stop --all, squash serve/);
    await daemon.kill();
    daemon.upgrade();
    await daemon.start();
    assert.equal(await output(daemon, 'dev', 'cat /root/file'), 'kept\n');
    assert.equal((await job()).status, 'running');
    // Who replaces it by such a daemon ends what ran.
    await daemon.kill();
    daemon.upgrade(release);
    await daemon.start();
    await daemon.call('POST', boxPath('dev', '/restore'), { label: 'before' });
    const { status: end, exit_code: code } = await job();
    assert.deepEqual([end, code], ['killed', 137]);
  } finally {
    rmSync(release, { recursive: true });
  }
});

test('a PID 1 that says of itself that it is of a later release is ended and replaced as any that lies', async () => {
  const { daemon, job } = await daemonWithJob();
  await using _daemon = daemon;
  await daemon.kill();
  const sockets = join(daemon.dataDir, 'run/g');
  const name = readdirSync(sockets).find((each) => /^\d+\.sock$/.test(each)) ?? '';
  const path = join(sockets, name);
  rmSync(path);
  {
    await using _strange = await strangeGuest(path, 2);
    await daemon.start();
    await waitFor('it to be back', async () => (await infoOf(daemon)).state === 'ready');
  }
  assert.equal(await output(daemon, 'dev', 'cat /root/file'), 'kept\n');
  const { status, reason } = await job();
  assert.deepEqual([status, reason], ['killed', 'lost']);
});
