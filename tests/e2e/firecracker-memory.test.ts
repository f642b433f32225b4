/**
 * MicroVMs of Firecracker that go on from a memory, through the API: that of a template, of one that runs, of a snapshot. Where
 * SQUASH_FIRECRACKER names the real one, with KVM, it is what runs; else a stand-in that takes the same requests, with guests of QEMU.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { squashOk } from '../support/cli.ts';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { firecrackerProgram, isRealFirecracker, isTunOpen } from '../support/firecracker-program.ts';
import { processesOf } from '../support/leaks.ts';
import { MemoryCounter } from '../support/memory-counter.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const sandboxes = '/v1/sandboxes';
const memoryMb = 128;
const skip = !isTunOpen && 'only root may open /dev/net/tun here';
let directory: string;
let outside: Server;
let daemon: TestDaemon;
let source: string;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), ownedPrefix('firecracker-memory')));
  chmodSync(directory, 0o755);
  outside = createServer((_, response) => response.end('from outside')).listen(0, '127.0.0.1');
  await once(outside, 'listening');
  daemon = await TestDaemon.start({
    modules: { ...(await debianModules()), '900-vmm': await vmModule() },
    env: {
      SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.1/32',
      SQUASH_BACKEND: 'firecracker',
      SQUASH_FIRECRACKER: firecrackerProgram(directory),
    },
  });
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  outside.close();
  await rm(directory, { recursive: true });
});

async function send(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await daemon.request(method, path, body);
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

async function create(id: string): Promise<string> {
  const layers = ['000-base-debian'];
  const body = { id, layers, memory_mb: memoryMb, allow_net: [reachable()] };
  return (await send('POST', '/cgi-bin/api/sandboxes', body)).json.id;
}

const reachable = (): string => `host.squash.internal:${(outside.address() as AddressInfo).port}`;

/** By the tap, to what its policy names and to nothing else. */
async function checkNetwork(id: string): Promise<void> {
  const get = (address: string): string =>
    `timeout 20 bash -c 'exec 3<>/dev/tcp/${address.replace(':', '/')} && printf "GET / HTTP/1.1\\r\\nHost: ${address}\\r\\nConnection: close\\r\\n\\r\\n" >&3 && cat <&3' || echo closed`;
  assert.match(await output(id, get(reachable())), /from outside$/);
  assert.doesNotMatch(await output(id, get(reachable().replace(/^[^:]*/, '198.18.0.2'))), /from outside/);
}

async function output(id: string, cmd: string): Promise<string> {
  const { json } = await send('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd });
  assert.equal(json.exit_code, 0, json.stderr);
  return json.stdout.trim();
}

function namesIn(folder: string): readonly string[] {
  const path = join(daemon.dataDir, folder);
  return existsSync(path) ? readdirSync(path).sort() : [];
}

/** What is kept no longer than a start takes. */
function leftovers(): readonly string[] {
  const uppers = readdirSync(join(daemon.dataDir, 'sandboxes')).flatMap((id) =>
    namesIn(`sandboxes/${id}/uppers`).flatMap((upper) => namesIn(`sandboxes/${id}/uppers/${upper}/data`)),
  );
  const ours = namesIn('tmp').filter((name) => /^(memory|disk|template)-/.test(name));
  return [...ours, ...namesIn('vm/forks'), ...uppers.filter((name) => name.startsWith('saved.'))];
}

const vmms = () =>
  processesOf(daemon.dataDir).filter(({ command }) => command.includes('/usr/bin/firecracker'));

const counter = new MemoryCounter(output);

test('the first of a kind boots; all others have one file of memory, and are machines of their own', {
  skip,
}, async (t) => {
  t.diagnostic(isRealFirecracker ? 'shown with the real Firecracker' : 'shown with the stand-in');
  source = await create('source');
  assert.doesNotMatch(await output(source, 'cat /proc/cmdline'), /squash\.copied/);
  assert.deepEqual(namesIn('vm/templates'), []);
  const one = await create('one');
  const copies = [one, await create('other')];
  const [template = '', ...others] = namesIn('vm/templates');
  assert.deepEqual(others, []);
  const path = join(daemon.dataDir, 'vm/templates', template);
  const { size, blocks } = statSync(path);
  assert.ok(size > memoryMb * 1_048_576, 'the state is behind the memory');
  assert.ok(blocks * 512 < size, 'what is empty takes no room');
  for (const id of copies) {
    assert.match(await output(id, 'cat /proc/cmdline'), /squash\.copied=1/);
    assert.equal(await output(id, 'hostname'), id);
    await checkNetwork(id);
    await output(id, 'head -c 8000000 /dev/urandom >/dev/shm/written; echo own >/root/own; sync');
  }
  for (const cmd of [
    'cat /proc/sys/kernel/random/boot_id',
    'cat /proc/sys/kernel/random/uuid',
    'head -c 16 /dev/urandom | od -An -tx1',
  ])
    assert.equal(new Set(await Promise.all(copies.map((id) => output(id, cmd)))).size, 2, cmd);
  const told = Number(await output(one, 'date +%s%3N'));
  assert.ok(Math.abs(told - Date.now()) < 5000, `${told - Date.now()} ms off`);
  // Both have it before them, and what they have written is not in it.
  if (process.getuid?.() === 0) {
    const inode = statSync(path).ino;
    const seen = vmms().map(
      ({ pid }) => statSync(`/proc/${pid}/root/drives/memory`, { throwIfNoEntry: false })?.ino,
    );
    assert.equal(seen.filter((each) => each === inode).length, 2);
  }
  assert.ok(template.endsWith(createHash('sha256').update(readFileSync(path)).digest('hex')));
  assert.deepEqual(leftovers(), []);
  for (const id of copies) await send('DELETE', `${sandboxes}/${id}`);
});

test('a fork with its memory goes on beside the one that it was made of', { skip }, async () => {
  await output(source, 'echo before >/root/file');
  await counter.start(source);
  const then = await counter.in(source);
  const copy = (await squashOk(daemon, ['fork', '--with-memory', source])).trim();
  if (process.getuid?.() === 0) {
    const disks = vmms().map(
      ({ pid }) => statSync(`/proc/${pid}/root/drives/disk`, { throwIfNoEntry: false })?.blocks ?? 0,
    );
    assert.deepEqual(new Set(disks), new Set([0]), 'a disk that was copied takes no room');
  }
  for (const id of [source, copy]) {
    const now = await counter.in(id);
    assert.equal(now.word, then.word);
    await counter.goesOn(id, Math.max(now.count, then.count));
    assert.equal(await output(id, 'cat /root/file; hostname'), `before\n${id}`);
    await output(id, `echo ${id} >/root/mine; sync`);
    await checkNetwork(id);
  }
  assert.equal(await output(source, 'cat /root/mine'), source);
  assert.equal(await output(copy, 'cat /root/mine'), copy);
  assert.deepEqual(leftovers(), []);
  await send('DELETE', `${sandboxes}/${copy}`);
});

test('others go on from a snapshot with memory, behind a restart, and so does the one that it is of', {
  skip,
}, async () => {
  const then = await counter.in(source);
  await squashOk(daemon, ['snapshot', '--with-memory', source, 'live']);
  await counter.goesOn(source, then.count);
  await output(source, 'echo after >/root/file');
  assert.deepEqual(namesIn(`sandboxes/${source}/snapshots`), ['live.disk', 'live.memory', 'live.squashfs']);
  await daemon.kill();
  await daemon.start();
  const from = { sandbox: source, snapshot: 'live' };
  const { id: other } = (await send('POST', sandboxes, { from, memory: true })).json;
  await send('POST', `${sandboxes}/${source}/restore`, { snapshot: 'live', memory: true });
  for (const id of [other, source]) {
    const now = await counter.in(id);
    assert.equal(now.word, then.word);
    await counter.goesOn(id, now.count);
    assert.equal(await output(id, 'cat /root/file; hostname'), `before\n${id}`);
  }
  assert.deepEqual(leftovers(), []);
});

test('a daemon that dies while one is saved leaves nothing of that, and it goes on', { skip }, async () => {
  const then = await counter.in(source);
  daemon
    .request('POST', `${sandboxes}/${source}/snapshots`, { label: 'half', memory: true })
    .catch(() => undefined); // Nobody is there to answer.
  await waitFor('the monitor to write', () => leftovers().includes('saved.memory'), 60_000);
  await daemon.kill();
  await daemon.start();
  await counter.goesOn(source, then.count);
  assert.equal((await counter.in(source)).word, then.word);
  assert.deepEqual(leftovers(), []);
  assert.deepEqual(namesIn(`sandboxes/${source}/snapshots`), ['live.disk', 'live.memory', 'live.squashfs']);
});

test('of one whose VMM dies while it is saved nothing is left when it has started again', {
  skip: skip || (process.getuid?.() !== 0 && 'only root sees which VMM is whose'),
}, async () => {
  const asked = daemon.request('POST', `${sandboxes}/${source}/snapshots`, { label: 'lost', memory: true });
  const writes = () => vmms().find(({ pid }) => existsSync(`/proc/${pid}/root/saved.memory`));
  await waitFor('its memory to be written', () => writes() !== undefined, 60_000);
  process.kill(writes()?.pid ?? 0, 'SIGKILL');
  const { status, json } = await asked;
  assert.deepEqual([status, json.code], [502, 'guest_failed']);
  const isThere = async (): Promise<boolean> =>
    (await daemon.request('POST', `/cgi-bin/api/sandboxes/${source}/exec`, { cmd: ':' })).json.exit_code ===
    0;
  await waitFor('it to have started again', isThere, 120_000);
  assert.deepEqual(leftovers(), []);
});

test('nothing is left of them when they are gone', { skip }, async () => {
  for (const { id } of (await send('GET', sandboxes)).json.items) await send('DELETE', `${sandboxes}/${id}`);
  assert.deepEqual(vmms(), []);
  assert.deepEqual(leftovers(), []);
});
