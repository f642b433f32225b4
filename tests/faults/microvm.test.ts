/**
 * What goes wrong around a microVM, with a monitor that has no machine (`taken-vmm.c`): squash-vmm stands still, the disk is full while
 * one is saved, the VM module is replaced while another starts.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { needsRoot, smallDisk } from '../support/small-disk.ts';
import { takenVmm } from '../support/taken-vmm.ts';
import { waitFor } from '../support/wait.ts';
import { sandboxesPath } from './model.ts';

const isLong = process.env['TEST_LONG'] === '1';
/** `answerMsMax.vm` and `settleMsMax` of the driver, and what a busy machine adds. */
const answerMs = 60_000;
const settleMs = 30_000;
const slackMs = 15_000;
/** Longer than a start of these takes. */
const standsMs = 20_000;

let directory: string;
let module: string;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), ownedPrefix('microvm-faults')));
  module = join(directory, 'vmm.squashfs');
  await takenVmm(module);
});
after(() => rm(directory, { recursive: true }));

async function startDaemon(options: { readonly parent?: string } = {}): Promise<TestDaemon> {
  return await TestDaemon.start({
    ...options,
    modules: { '900-vmm': module },
    env: { SQUASH_BACKEND: 'vm' },
  });
}

async function create(daemon: TestDaemon, id: string): Promise<Answer> {
  return await daemon.request('POST', sandboxesPath, { id, memory_mb: 128 });
}

const exec = async (daemon: TestDaemon, id: string, cmd: string): Promise<Answer> =>
  await daemon.request('POST', `${sandboxesPath}/${id}/exec`, { cmd });

async function timed<T>(work: Promise<T>): Promise<readonly [T, number]> {
  const began = performance.now();
  return [await work, performance.now() - began];
}

test('one whose squash-vmm stands still is stopped, and who asks for a file of it gets an error, in bounded time', async () => {
  await using daemon = await startDaemon();
  const ids = isLong ? ['stopped', 'asked'] : ['stopped'];
  for (const id of ids) assert.equal((await create(daemon, id)).status, 201);
  const vmms = processesOf(daemon.dataDir).filter(({ command }) => command.startsWith('/proc/self/fd/'));
  assert.equal(vmms.length, ids.length);
  for (const { pid } of vmms) process.kill(pid, 'SIGSTOP');
  const stopping = timed(daemon.request('POST', '/v1/sandboxes/stopped/pause', { keep: 'files' }));
  const asking = isLong ? timed(daemon.request('GET', '/v1/sandboxes/asked/files?path=/told')) : undefined;
  const [stopped, stoppedMs] = await stopping;
  assert.equal(stopped.status, 200, stopped.text);
  assert.ok(stoppedMs < settleMs + slackMs, `stopped after ${stoppedMs} ms`);
  if (asking !== undefined) {
    const [asked, askedMs] = await asking;
    assert.equal(asked.json.code, 'guest_failed', asked.text);
    assert.match(asked.text, /does not answer/);
    assert.ok(askedMs < answerMs + slackMs, `answered after ${askedMs} ms`);
  }
  assert.equal((await daemon.request('POST', '/v1/sandboxes/stopped/resume')).status, 200);
  assert.equal((await exec(daemon, 'stopped', 'echo again')).json.stdout, 'again\n');
});

test('a nearly full disk refuses what a microVM sends of itself, and keeps nothing of it', {
  skip: needsRoot,
}, async () => {
  using disk = smallDisk(256 * 1_048_576);
  await using daemon = await startDaemon({ parent: disk.path });
  assert.equal((await create(daemon, 'one')).status, 201);
  // Frames of 64 KiB zeros without an end, 64 at a time: each process takes an emulated machine a while.
  const lie = String.raw`#!/bin/sh
cd /dev/shm
{ printf '\0\0\1\0\210\0\0\0'; head -c 65536 /dev/zero; } >f
for n in 1 2 3 4 5 6; do cat f f >g; mv g f; done
while cat f; do :; done 2>/dev/null`;
  const put = await exec(daemon, 'one', `cat >/lies/47 <<'E'\n${lie}\nE\nchmod +x /lies/47`);
  assert.equal(put.json.exit_code, 0, put.text);
  const snapshot = await daemon.request('POST', `${sandboxesPath}/one/snapshot`, { label: 'full' });
  assert.deepEqual([snapshot.status, snapshot.json.code], [507, 'disk_full'], snapshot.text);
  const left = (): readonly string[] => readdirSync(join(daemon.dataDir, 'tmp'));
  await waitFor('nothing to be left of it', () => !left().some((name) => name.startsWith('upper-')));
  // The same on a disk that has no room from the beginning.
  disk.fill();
  const full = await daemon.request('POST', `${sandboxesPath}/one/snapshot`, { label: 'full' });
  assert.equal(full.json.code, 'disk_full', full.text);
  disk.free();
  assert.equal((await exec(daemon, 'one', 'echo fine')).json.stdout, 'fine\n');
});

test('the tree of a VM module stays while one that it belongs to starts, also where it is replaced', async () => {
  await using daemon = await startDaemon();
  const replace = async (told: string, boot = ''): Promise<void> =>
    await takenVmm(join(daemon.dataDir, 'modules/900-vmm.squashfs'), {
      files: { told, 'lies/boot': `#!/bin/sh\n${boot}\n` },
    });
  const trees = (): readonly string[] =>
    existsSync(join(daemon.dataDir, 'vm'))
      ? readdirSync(join(daemon.dataDir, 'vm')).filter((name) => /^[0-9a-f]{64}$/.test(name))
      : [];
  await replace('old', 'n=0; until [ $n = 50 ]; do sleep 0.2; n=$((n+1)); done; echo slept >/dev/shm/slept');
  const starting = create(daemon, 'first');
  await waitFor(
    'its monitor to run',
    () => processesOf(daemon.dataDir).some(({ command }) => command.includes('/lies/boot')),
    standsMs,
  );
  const old = trees();
  assert.equal(old.length, 1);
  await replace('new');
  const second = await create(daemon, 'second');
  assert.equal(second.status, 201, second.text);
  assert.equal(trees().length, 2, 'the old one is still used');
  assert.equal((await starting).status, 201);
  assert.equal((await exec(daemon, 'first', 'cat /told /dev/shm/slept')).json.stdout, 'oldslept\n');
  assert.equal((await exec(daemon, 'second', 'cat /told')).json.stdout, 'new');
});
