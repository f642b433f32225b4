/**
 * Whether VMs run on KVM is found out with a guest, and told. Where root runs this on a machine without `/dev/kvm` the daemon sees one that
 * boots nothing; elsewhere it is the machine's own: what doctor says of it is what a VM then runs with, whichever that is.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { vmModule } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const sandboxes = '/cgi-bin/api/sandboxes';
const isDead = !existsSync('/dev/kvm') && process.getuid?.() === 0;
const hasDevice = isDead || existsSync('/dev/kvm');
let place: ChildProcess | undefined;
let daemon: TestDaemon;

before(async () => {
  if (isDead) place = await withDevice();
  daemon = await TestDaemon.start({
    modules: { '900-vmm': await vmModule() },
    env: { SQUASH_BACKEND: 'vm' },
    ...(place?.pid === undefined ? {} : { beside: place.pid }),
  });
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  place?.kill('SIGKILL');
});

/** A process in whose mounts there is a node of that number, behind which the kernel has nothing. */
async function withDevice(): Promise<ChildProcess> {
  const make = [
    'mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work',
    'mount -t overlay none -o lowerdir=/dev,upperdir=/mnt/upper,workdir=/mnt/work /dev',
    'mknod -m 600 /dev/kvm c 10 232 && echo made && exec sleep 600',
  ].join(' && ');
  const child = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', make], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit').then(() => assert.fail('no device could be made'));
  await Promise.race([once(child.stdout, 'data'), ended]);
  ended.catch(() => undefined);
  return child;
}

interface Row {
  readonly name: string;
  readonly state: string;
  readonly found: string;
  readonly choice: string;
}

async function row(name: string): Promise<Row> {
  const { host } = (await daemon.call('GET', '/v1/info')) as { readonly host: readonly Row[] };
  return host.find((each) => each.name === name) ?? assert.fail(`no row ${name}`);
}

async function isTrying(): Promise<boolean> {
  return (await row('vmm')).choice.includes('is being tried');
}

async function tried(): Promise<void> {
  await waitFor('KVM to be tried', async () => !(await isTrying()), 60_000);
}

const accelerators = () =>
  processesOf(daemon.dataDir).flatMap(({ command }) => / -accel (\w+)/.exec(command)?.[1] ?? []);

const vmms = () =>
  processesOf(daemon.dataDir).filter(({ command }) => /squash-vmm|qemu-system/.test(command));

const unfinished = () => readdirSync(join(daemon.dataDir, 'tmp')).filter((name) => name.startsWith('probe-'));

test('who asks what this host offers waits for no trial of KVM', async () => {
  assert.equal(await isTrying(), hasDevice);
});

test('doctor says what virtual machines run on, and why it is not KVM', async () => {
  await tried();
  const { state, found } = await row('kvm');
  const { choice } = await row('vmm');
  if (state === 'ok') assert.match(choice, /in QEMU, on KVM$/);
  else assert.ok(choice.includes(`emulated: no guest runs on KVM (${found})`), choice);
  if (isDead) assert.match(found, /kvm: No such device/i);
  assert.deepEqual([vmms(), unfinished()], [[], []]);
});

test('a daemon that dies while KVM is tried leaves nothing of it to the next', async () => {
  await daemon.kill();
  await daemon.start();
  // Where there is no device nothing is tried.
  await waitFor('a trial, or its end', async () => vmms().length > 0 || !(await isTrying()), 60_000);
  await daemon.kill();
  await daemon.start();
  await waitFor('what was left to be gone', () => vmms().length + unfinished().length === 0);
});

test('a VM runs with what doctor says, and with no less memory than any', async () => {
  await tried();
  const wanted = (await row('kvm')).state === 'ok' ? 'kvm' : 'tcg';
  const { warnings } = (await daemon.call('POST', sandboxes, {
    id: 'dev',
    cpu: 2,
    memory_mb: 64,
  })) as SandboxInfo;
  const least = 'a microVM has 128 MiB of memory at least: this one has that, and not 64';
  assert.deepEqual(
    warnings.filter(({ code }) => code === 'memory_minimum'),
    [{ code: 'memory_minimum', message: least }],
  );
  const large = await daemon.request('POST', sandboxes, { id: 'large', memory_mb: 1_000_000 });
  assert.deepEqual([large.status, large.json.code], [409, 'vm_unsupported'], large.text);
  // What it has is what counts.
  const { room } = (await daemon.call('GET', '/v1/info')) as { room: { memory: { promised: number } } };
  assert.equal(room.memory.promised, 128 * 2 ** 20);
  const ran = (await daemon.call('POST', `${sandboxes}/dev/exec`, { cmd: 'nproc' })) as { stdout: string };
  assert.deepEqual(accelerators(), [wanted]);
  if (wanted === 'tcg') assert.equal(ran.stdout, '1\n');
});

test('where KVM is asked for there is a VM on it, or the reason why not', async () => {
  await daemon.stop();
  await daemon.start({ SQUASH_VM_ACCEL: 'kvm' });
  const made = await daemon.request('POST', sandboxes, { id: 'other' });
  const { state, found } = await row('kvm');
  if (state === 'ok') {
    assert.equal(made.status, 201, made.text);
    return;
  }
  assert.equal(made.json.code, 'vm_unavailable', made.text);
  assert.ok(made.text.includes(JSON.stringify(found).slice(1, -1)), made.text);
  assert.match((await row('vmm')).choice, /^no virtual machines: SQUASH_VM_ACCEL is "kvm"/);
  assert.equal((await daemon.request('GET', `${sandboxes}/other`)).status, 404);
});

test('where emulation is asked for nothing is tried', async () => {
  await daemon.stop();
  await daemon.start({ SQUASH_VM_ACCEL: 'tcg' });
  assert.match((await row('vmm')).choice, /emulated: SQUASH_VM_ACCEL is "tcg"$/);
});
