/**
 * VMs that go on from a template's memory, through the API: each is one of its own, works as one that has booted, and whatever is wrong
 * with a template costs a boot and nothing else. How a VM came to be is told by its VMM's words: `-incoming` is from a template.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { open, rename, truncate, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { type ProcessEntry, processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const sandboxes = '/cgi-bin/api/sandboxes';
let outside: Server;
let daemon: TestDaemon;
/** The template of a VM with the Debian layer alone. */
let first: string;

before(async () => {
  outside = createServer((_, response) => response.end('from outside')).listen(0, '127.0.0.1');
  await once(outside, 'listening');
  daemon = await TestDaemon.start({
    modules: { ...(await debianModules()), '900-vmm': await vmModule() },
    env: { SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.1/32', SQUASH_BACKEND: 'vm' },
  });
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  outside.close();
});

async function create(id: string, memoryMb = 128): Promise<void> {
  await send('POST', sandboxes, {
    id,
    layers: ['000-base-debian'],
    memory_mb: memoryMb,
    allow_net: [`host.squash.internal:${(outside.address() as AddressInfo).port}`],
  });
}

async function createAndEnd(id: string, memoryMb?: number): Promise<void> {
  await create(id, memoryMb);
  await send('DELETE', `${sandboxes}/${id}`);
}

async function send(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await daemon.request(method, path, body);
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

async function output(id: string, cmd: string): Promise<string> {
  const { json } = await send('POST', `${sandboxes}/${id}/exec`, { cmd });
  assert.equal(json.exit_code, 0, json.stderr);
  return json.stdout.trim();
}

function vmms(): readonly ProcessEntry[] {
  return processesOf(daemon.dataDir).filter(({ command }) => command.includes('/qemu-system-x86_64 '));
}

/** How many of the VMs that run are from a template. */
function copies(): number {
  return vmms().filter(({ command }) => command.includes(' -incoming ')).length;
}

/** What the VMM holds of its guest's memory. */
function guestMemoryMb(pid: number): number {
  const kb = /^RssShmem:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  return Number(kb) / 1024;
}

/** Lines of the daemon's log. */
function failures(): readonly string[] {
  return daemon.output.split('\n').filter((line) => line.includes('"vm.template"'));
}

function templates(): readonly string[] {
  return namesIn('vm/templates');
}

function unfinished(): readonly string[] {
  return namesIn('tmp').filter((name) => name.startsWith('template-'));
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(join(daemon.dataDir, folder));
  } catch {
    return [];
  }
}

const identity = [
  'hostname',
  'cat /proc/sys/kernel/random/uuid',
  'cat /proc/sys/kernel/random/boot_id',
  'head -c 16 /dev/urandom | od -An -tx1',
  // By what the kernel put there when the program began.
  'perl -e "print rand"',
  'cut -d" " -f1 /proc/self/maps | head -1',
];

test('the first VM of a kind boots; two more go on from one template, and are two', async () => {
  await createAndEnd('zero');
  assert.deepEqual(templates(), []);
  // Asked for at once: whose turn it is makes the template, and the other waits for it.
  await Promise.all([create('one'), create('two')]);
  assert.deepEqual([vmms().length, copies(), templates().length], [2, 2, 1]);
  first = templates()[0] ?? '';
  for (const cmd of identity) {
    const [one, two] = await Promise.all([output('one', cmd), output('two', cmd)]);
    assert.notEqual(one, two, cmd);
  }
  for (const id of ['one', 'two']) {
    assert.equal(await output(id, 'hostname; grep -c "127.0.1.1.$(hostname)$" /etc/hosts'), `${id}\n1`);
    const before = Date.now();
    const told = Number(await output(id, 'date +%s%3N'));
    assert.ok(told > before - 2000 && told < Date.now() + 2000, `${told - before} ms off`);
  }
  await output('one', 'echo mine >/root/mine');
  assert.equal(await output('two', 'ls /root'), '');
});

test('one from a template works as one that has booted', async () => {
  const { port } = outside.address() as AddressInfo;
  const asked = (host: string): string =>
    `timeout 20 bash -c 'exec 3<>/dev/tcp/${host}/${port} && printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3 && cat <&3' || :`;
  assert.match(await output('one', asked('host.squash.internal')), /from outside$/);
  assert.doesNotMatch(await output('one', asked('10.0.2.2')), /from outside/);
  assert.equal(
    await output(
      'one',
      'head -c 300000 /dev/zero >/root/many; df -k / | tail -1 | tr -s " " | cut -d" " -f1',
    ),
    'overlay',
  );
  // On the disk that it had.
  const boot = await output('one', 'cat /proc/sys/kernel/random/boot_id');
  await send('POST', '/v1/sandboxes/one/pause', { keep: 'files' });
  await send('POST', '/v1/sandboxes/one/resume');
  assert.equal(await output('one', 'cat /root/mine'), 'mine');
  assert.notEqual(await output('one', 'cat /proc/sys/kernel/random/boot_id'), boot);
  assert.equal(copies(), 2);
  await send('POST', `${sandboxes}/one/snapshot`, { label: 'early' });
  await output('one', 'rm /root/many; echo late >/root/late');
  await send('POST', `${sandboxes}/one/restore`, { label: 'early' });
  assert.equal(await output('one', 'ls /root'), 'many\nmine');
});

const isRoot = process.getuid?.() === 0;
test('a disk that is no file system any more costs no template', {
  skip: !isRoot && 'only root damages a disk',
}, async () => {
  await create('broken');
  await send('POST', '/v1/sandboxes/broken/pause', { keep: 'files' });
  const disk = join(daemon.dataDir, 'sandboxes/broken/uppers/1/data/disk');
  await truncate(disk, 0);
  await truncate(disk, 1_048_576);
  const told = failures().length;
  const refused = await daemon.request('POST', '/v1/sandboxes/broken/resume');
  assert.equal(refused.json.code, 'launch_failed', refused.text);
  assert.match(refused.text, /mount drive .*upper/);
  assert.deepEqual([templates(), failures().length], [[first], told]);
  await send('DELETE', `${sandboxes}/broken`);
});

test('memory that a guest has freed is the host’s again', async () => {
  const [vmm] = vmms().filter(({ command }) => command.includes(' -incoming '));
  assert.ok(vmm !== undefined);
  const ids = ['one', 'two'];
  // Whichever of them it is.
  for (const id of ids) await output(id, 'head -c 20000000 /dev/urandom >/dev/shm/large');
  const full = guestMemoryMb(vmm.pid);
  for (const id of ids) await output(id, 'rm /dev/shm/large');
  await waitFor('the freed memory to go', () => guestMemoryMb(vmm.pid) < full - 10, 60_000);
});

test('a daemon that is started again uses the templates of the one before', async () => {
  await daemon.kill();
  await daemon.start();
  const before = copies();
  await create('three');
  assert.equal(copies(), before + 1);
  assert.ok(templates().includes(first));
  await send('DELETE', `${sandboxes}/three`);
});

test('a template whose bytes were changed is not used, and neither is one that no VMM can read', async () => {
  const place = join(daemon.dataDir, 'vm/templates');
  const file = await open(join(place, first), 'r+');
  await file.write('changed', 1_000_000);
  await file.close();
  const others = templates().filter((name) => name !== first);
  await createAndEnd('three');
  assert.ok(!templates().includes(first));

  // By its name it is what was once made.
  const kept = templates().find((name) => !others.includes(name));
  assert.ok(kept !== undefined);
  const garbage = 'no stream of any VMM\n'.repeat(1000);
  const named = kept.replace(/[0-9a-f]{64}$/, createHash('sha256').update(garbage).digest('hex'));
  await rename(join(place, kept), join(place, named));
  await writeFile(join(place, named), garbage);
  const before = copies();
  await create('three');
  assert.equal(await output('three', 'hostname'), 'three');
  assert.equal(copies(), before);
  assert.ok(!templates().includes(named));
  assert.match(failures().at(-1) ?? '', new RegExp(`"template":"${named}".*does not start`));

  // It is not new any more, and makes none: somebody may have replaced its monitor's programs.
  const those = templates();
  await send('POST', '/v1/sandboxes/three/pause', { keep: 'files' });
  await send('POST', '/v1/sandboxes/three/resume');
  assert.deepEqual([copies(), templates()], [before, those]);
  await send('DELETE', `${sandboxes}/three`);
});

test('a VM of another size has a template of its own, and boots where that can not be made', async () => {
  const before = [copies(), templates().length];
  await createAndEnd('first-large', 192);
  const told = failures().length;
  const made = create('large', 192);
  await waitFor('a template that is being made', () => unfinished().length > 0, 120_000);
  for (const { pid, command } of vmms()) if (command.includes('-m 192M')) process.kill(pid, 'SIGKILL');
  await made;
  await createAndEnd('large-too', 192);
  assert.equal(failures().length, told + 1);
  assert.match(failures().at(-1) ?? '', /"level":"warn".*"error":"[^"]*does not start/);
  assert.match(await output('large', 'grep MemTotal /proc/meminfo'), / 1[3-8]\d{4} kB$/);
  assert.deepEqual([copies(), templates().length], before);
  assert.deepEqual(unfinished(), []);
  await send('DELETE', `${sandboxes}/large`);
});

test('a daemon that dies while a template is made leaves nothing of it', async () => {
  const before = [vmms().length, templates().length];
  await createAndEnd('first-lost', 224);
  create('lost', 224).catch(() => undefined); // Nobody is there to answer.
  await waitFor('a template that is being made', () => unfinished().length > 0, 120_000);
  await daemon.kill();
  await daemon.start();
  await waitFor(
    'what nobody has asked for to be gone',
    () => unfinished().length === 0 && vmms().length === before[0],
  );
  assert.equal(templates().length, before[1]);
  assert.equal((await daemon.request('GET', `${sandboxes}/lost`)).status, 404);
});

test('without the VM module its templates are collected', async () => {
  for (const id of ['one', 'two']) await send('DELETE', `${sandboxes}/${id}`);
  assert.deepEqual(vmms(), []);
  await createAndEnd('last');
  await createAndEnd('very-last');
  assert.equal(templates().length > 0, true);
  await send('POST', '/v1/gc', {});
  assert.equal(templates().length > 0, true);
  await send('DELETE', '/v1/modules/900-vmm');
  await send('POST', '/v1/gc', {});
  assert.deepEqual(templates(), []);
});
