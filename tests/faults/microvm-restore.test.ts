/**
 * A daemon that dies while a microVM is put back to a snapshot with its memory: the next one has the sandbox as it was, on the files that it
 * had, or as it is to be, with the processes of then; and nothing of the memory is left.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { FaultPoint } from '../../host/src/sandbox/fault.ts';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const path = '/v1/sandboxes/vm';
/** Of an emulated one on a busy machine, after its daemon was killed while it booted. */
const readyMsMax = 240_000;
const restore = { snapshot: 'live', memory: true };
let daemon: TestDaemon;
/** Held in a program's memory alone. */
let word: string;

before(async () => {
  daemon = await TestDaemon.start({ modules: { ...(await debianModules()), '900-vmm': await vmModule() } });
  const vm = { id: 'vm', layers: ['000-base-debian'], backend: 'vm', memory_mb: 128 };
  await daemon.call('POST', '/cgi-bin/api/sandboxes', vm);
  await output('echo then >/root/file; sync');
  await output(
    "nohup sh -c 'w=$(cat /proc/sys/kernel/random/uuid); while :; do echo $w >/dev/shm/.n; mv /dev/shm/.n /dev/shm/n; sleep 0.2; done' >/dev/null 2>&1 &",
  );
  await waitFor('the program', async () => (await told()) !== '', 30_000);
  word = await told();
  await daemon.call('POST', `${path}/snapshots`, { label: 'live', memory: true });
});
after(async () => await daemon[Symbol.asyncDispose]());

async function exec(cmd: string): Promise<Answer> {
  return await daemon.request('POST', '/cgi-bin/api/sandboxes/vm/exec', { cmd });
}

async function output(cmd: string): Promise<string> {
  const { json, text } = await exec(cmd);
  assert.equal(json.exit_code, 0, text);
  return json.stdout.trim();
}

/** What the program, if there is one, says now. */
async function told(): Promise<string> {
  return await output('rm -f /dev/shm/n; sleep 2; cat /dev/shm/n 2>/dev/null || :');
}

function vmms(): readonly number[] {
  const all = processesOf(daemon.dataDir);
  return all.filter(({ command }) => command.includes('/qemu-system-x86_64 ')).map(({ pid }) => pid);
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(join(daemon.dataDir, folder));
  } catch {
    return [];
  }
}

async function nextDaemon(): Promise<void> {
  await daemon.kill();
  await daemon.start();
  const isReady = async (): Promise<boolean> => {
    const { status, json } = await exec('true');
    return status === 200 && json.exit_code === 0;
  };
  await waitFor('it to be ready', isReady, readyMsMax);
}

async function dyingAt(point: FaultPoint): Promise<void> {
  await daemon.kill();
  await daemon.start({ SQUASH_FAULT_POINT: point });
  await daemon.request('POST', `${path}/restore`, restore).catch(() => undefined);
  await waitFor(`a death at ${point}`, () => daemon.pid === undefined, 120_000);
}

async function nothingLeft(): Promise<void> {
  const left = (): readonly string[] => [
    ...namesIn('tmp').filter((name) => /^(memory|disk)-/.test(name)),
    ...namesIn('vm/forks'),
    ...namesIn('trash'),
  ];
  await waitFor('nothing left over', () => left().length === 0);
  assert.equal(namesIn('sandboxes/vm/uppers').length, 1, namesIn('sandboxes/vm/uppers').join());
  assert.deepEqual([...namesIn('sandboxes/vm/snapshots')].sort(), [
    'live.disk',
    'live.memory',
    'live.squashfs',
  ]);
  assert.equal(vmms().length, 1);
  assert.equal((await daemon.call('GET', path)).state, 'ready');
}

test('it goes on undisturbed where the daemon dies before anything of it was ended', async () => {
  const boot = await output('cat /proc/sys/kernel/random/boot_id');
  await output('echo now >/root/file; sync');
  await dyingAt('restore.pending');
  await nextDaemon();
  assert.equal(await output('cat /root/file /proc/sys/kernel/random/boot_id'), `now\n${boot}`);
  assert.equal(await told(), word);
  await nothingLeft();
});

test('it starts on the files that it had where the daemon dies when it has ended', async () => {
  await output('echo later >/root/file; sync');
  await dyingAt('restore.stopped');
  await nextDaemon();
  assert.equal(await output('cat /root/file'), 'later');
  assert.equal(await told(), '');
  await nothingLeft();
});

test('it starts on the files that it had where the daemon dies while it goes on from the memory', async () => {
  await output('echo last >/root/file; sync');
  const known = vmms();
  daemon.request('POST', `${path}/restore`, restore).catch(() => undefined); // Nobody is there to answer.
  await waitFor('the VMM', () => vmms().some((pid) => !known.includes(pid)), 120_000);
  await nextDaemon();
  assert.equal(await output('cat /root/file'), 'last');
  assert.equal(await told(), '');
  await nothingLeft();
});

test('it has the processes of then where the daemon dies when it goes on', async () => {
  await dyingAt('restore.started');
  await nextDaemon();
  assert.equal(await output('cat /root/file'), 'then');
  assert.equal(await told(), word);
  await nothingLeft();
});

test('nothing is left of it when it is gone', async () => {
  await daemon.call('DELETE', path);
  assert.deepEqual([vmms(), namesIn('sandboxes')], [[], []]);
});
