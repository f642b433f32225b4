/**
 * Sandboxes that are microVMs of Firecracker, through the API. Where SQUASH_FIRECRACKER names the real one, with KVM, it is what runs; else a
 * stand-in that judges each request as the real one does and boots the guest in QEMU: what is shown then is the client, the tap and the guest.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, readdirSync } from 'node:fs';
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { squashOk } from '../support/cli.ts';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { firecrackerProgram, isRealFirecracker, isTunOpen, standIn } from '../support/firecracker-program.ts';
import { processesOf } from '../support/leaks.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const sandboxes = '/cgi-bin/api/sandboxes';
const skip = !isTunOpen && 'only root may open /dev/net/tun here';
let directory: string;
let outside: Server;
let heard: string | undefined;
let program: string;
let daemon: TestDaemon;

const outsidePort = (): number => (outside.address() as AddressInfo).port;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), ownedPrefix('firecracker')));
  chmodSync(directory, 0o755);
  program = firecrackerProgram(directory);
  outside = createServer((request, response) => {
    heard = request.headers.authorization;
    response.end('from outside');
  }).listen(0, '127.0.0.1');
  await once(outside, 'listening');
  daemon = await TestDaemon.start({
    modules: { ...(await debianModules()), '900-vmm': await vmModule() },
    env: {
      SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.1/32',
      SQUASH_BACKEND: 'firecracker',
      SQUASH_FIRECRACKER: program,
    },
  });
  const made = await create();
  if (isTunOpen) assert.equal(made.json.backend, 'vm', made.text);
  else assert.match(made.text, /launch_failed.*\/dev\/net\/tun|\/dev\/net\/tun.*launch_failed/);
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  outside.close();
  await rm(directory, { recursive: true });
});

async function create(): Promise<Answer> {
  return await daemon.request('POST', sandboxes, {
    id: 'dev',
    layers: ['000-base-debian'],
    memory_mb: 256,
    allow_net: [`host.squash.internal:${outsidePort()}`],
  });
}

async function run(cmd: string, id = 'dev'): Promise<Answer['json']> {
  const answer = await daemon.request('POST', `${sandboxes}/${id}/exec`, { cmd });
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

async function output(cmd: string, id = 'dev'): Promise<string> {
  const { exit_code: code, stdout, stderr } = await run(cmd, id);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

async function send(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await daemon.request(method, path, body);
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

const vmms = () =>
  processesOf(daemon.dataDir).filter(({ command }) => command.includes('/usr/bin/firecracker'));

test('its commands and files are of a guest that Firecracker was asked for', { skip }, async (t) => {
  t.diagnostic(isRealFirecracker ? 'shown with the real Firecracker' : 'shown with the stand-in');
  assert.notEqual(await output('uname -r'), release());
  assert.match(await output('cat /proc/cmdline'), /squash\.ordered=1/);
  assert.equal(vmms().length, 1);
  await writeFile(join(directory, 'sent'), 'x'.repeat(300_000));
  await squashOk(daemon, ['cp', join(directory, 'sent'), 'dev:/root/sent']);
  assert.equal(await output('wc -c </root/sent'), '300000');
});

test('by its tap it reaches what its policy names, with its secrets, and nothing else', {
  skip,
}, async () => {
  const { json: secret } = await send('PUT', '/v1/secrets/API_KEY', {
    value: 'sk-real-value-0123456789',
    allowed_hosts: [`host.squash.internal:${outsidePort()}`],
  });
  const asked = (host: string): string =>
    `timeout 20 bash -c 'exec 3<>/dev/tcp/${host}/${outsidePort()} && printf "GET / HTTP/1.1\\r\\nHost: ${host}:${outsidePort()}\\r\\nAuthorization: Bearer $API_KEY\\r\\nConnection: close\\r\\n\\r\\n" >&3 && cat <&3'`;
  assert.equal(await output('echo $API_KEY'), secret.placeholder);
  assert.match(await output(asked('host.squash.internal')), /from outside$/);
  assert.equal(heard, 'Bearer sk-real-value-0123456789');
  heard = undefined;
  for (const host of ['198.18.0.1', '198.18.0.2', '127.0.0.1', '10.0.2.2', 'denied.example']) {
    assert.doesNotMatch((await run(asked(host))).stdout, /from outside/, host);
  }
  assert.equal(heard, undefined);
  assert.match((await send('GET', '/v1/sandboxes/dev/egress')).text, /denied\.example/);
});

test('what it has written is there after a stop, and in a fork of either backend', { skip }, async () => {
  await output('mkdir /data && echo one >/data/file && chown 1000 /data/file && rm /etc/issue');
  await send('POST', '/v1/sandboxes/dev/pause', { keep: 'files' });
  assert.deepEqual(vmms(), []);
  await send('POST', '/v1/sandboxes/dev/resume');
  const tell = 'stat -c "%n %u" /data/*; cat /data/file; test -e /etc/issue || echo gone';
  const before = await output(tell);
  assert.equal(before, '/data/file 1000\none\ngone');
  const { json: beside } = await send('POST', '/v1/sandboxes', {
    from: { sandbox: 'dev' },
    backend: 'chroot',
  });
  assert.equal(await output(tell, beside.id), before);
  await output('echo two >/data/more', beside.id);
  const { json: back } = await send('POST', '/v1/sandboxes', { from: { sandbox: beside.id }, backend: 'vm' });
  assert.equal(await output('cat /data/more; uname -r', back.id), `two\n${await output('uname -r')}`);
  assert.equal(vmms().length, 2);
  for (const { id } of [beside, back]) await send('DELETE', `/v1/sandboxes/${id}`);
});

test('one whose VMM is killed starts again on its disk', { skip }, async () => {
  await output('echo kept >/root/kept; sync');
  const boot = 'cat /proc/sys/kernel/random/boot_id';
  const first = await output(boot);
  for (const { pid } of vmms()) process.kill(pid, 'SIGKILL');
  const isOther = async (): Promise<boolean> => {
    const { json } = await daemon.request('POST', `${sandboxes}/dev/exec`, { cmd: boot });
    return json.exit_code === 0 && json.stdout.trim() !== first;
  };
  await waitFor('it to be ready again', isOther, 120_000);
  assert.equal(await output('cat /root/kept'), 'kept');
});

const isRoot = process.getuid?.() === 0;
test('one that does not boot tells why', { skip: !isRoot && 'only root damages a disk' }, async () => {
  // Its disk is made by the first start: then nobody finds a file system in it.
  const made = await daemon.request('POST', sandboxes, {
    id: 'broken',
    layers: ['000-base-debian'],
  });
  assert.equal(made.status, 201, made.text);
  await send('POST', '/v1/sandboxes/broken/pause', { keep: 'files' });
  const disk = join(daemon.dataDir, 'sandboxes/broken/uppers/1/data/disk');
  await truncate(disk, 0);
  await truncate(disk, 1_048_576);
  const refused = await daemon.request('POST', '/v1/sandboxes/broken/resume');
  assert.equal(refused.json.code, 'launch_failed', refused.text);
  assert.match(refused.text, /mount drive .*upper/);
  await send('DELETE', `${sandboxes}/broken`);
});

test('what it can not do is refused', async () => {
  const { json: volume } = await send('POST', '/v1/volumes', { name: 'v' });
  const mounts = [{ volume: volume.id, path: '/mnt' }];
  const mounted = await daemon.request('POST', '/v1/sandboxes', { name: 'mounted', mounts });
  assert.equal(mounted.json.code, 'vm_unsupported', mounted.text);
  assert.match(mounted.text, /backend \\"chroot\\"/);
});

test('a mount is refused while one is stopped, and not when it starts', { skip }, async () => {
  const [vm] = (await send('GET', '/v1/sandboxes')).json.items.filter(
    ({ backend }: { readonly backend: string }) => backend === 'vm',
  );
  const { json: volume } = await send('POST', '/v1/volumes', { name: 'late' });
  await send('POST', `/v1/sandboxes/${vm.id}/pause`, { keep: 'files' });
  const late = await daemon.request('POST', `/v1/sandboxes/${vm.id}/mounts`, {
    volume: volume.id,
    path: '/mnt',
  });
  assert.equal(late.json.code, 'vm_unsupported', late.text);
  await send('POST', `/v1/sandboxes/${vm.id}/resume`);
});

test('other limits while it runs are refused', { skip }, async () => {
  const [vm] = (await send('GET', '/v1/sandboxes')).json.items.filter(
    ({ backend }: { readonly backend: string }) => backend === 'vm',
  );
  const limited = await daemon.request('PATCH', `/v1/sandboxes/${vm.id}`, { cpu: 0.5 });
  assert.equal(limited.json.code, 'vm_unsupported', limited.text);
});

test('doctor tells which program it is, and whether it can have a network', async () => {
  const { json } = await send('GET', '/v1/info');
  const row = json.host.find(({ name }: { name: string }) => name === 'vmm');
  assert.equal(row.state, 'ok');
  assert.match(row.found, /sha256 [0-9a-f]{64}$/);
  assert.ok(row.found.includes(program), row.found);
  const tun = json.host.find(({ name }: { name: string }) => name === 'tun');
  assert.equal(tun.state, isTunOpen ? 'ok' : 'missing', tun.found);
  if (!isTunOpen)
    assert.match(
      `${tun.found}; ${tun.remedy}`,
      /\/dev\/net\/tun.*; (?:echo .*65-tun\.rules|sudo modprobe tun)/,
    );
});

test('nothing is left of it when it is gone', { skip }, async () => {
  await send('DELETE', `${sandboxes}/dev`);
  assert.deepEqual(vmms(), []);
  const programs = readdirSync(join(daemon.dataDir, 'vm')).filter((name) => name.startsWith('firecracker-'));
  assert.equal(programs.length, 1, 'one copy of the program');
});

test('an older Firecracker, and none at all, are refused with what mends it', async () => {
  const modules = { '900-vmm': await vmModule() };
  const old = standIn(directory, '1.16.0');
  for (const [env, reason] of [
    [{ SQUASH_FIRECRACKER: old }, /version \\"1\.16\.0\\": get 1\.16\.1 or newer/],
    [{ SQUASH_FIRECRACKER: join(directory, 'none') }, /SQUASH_FIRECRACKER names no program.*ENOENT/],
    [{ SQUASH_BACKEND: 'firecracker' }, /SQUASH_FIRECRACKER names no program.*it is not set/],
  ] as const) {
    if (env.SQUASH_FIRECRACKER === old && !isTunOpen) continue; // It is asked when its VMM runs.
    await using other = await TestDaemon.start({ modules, env: { SQUASH_BACKEND: 'vm', ...env } });
    const refused = await other.request('POST', '/v1/sandboxes', { backend: 'vm' });
    assert.equal(refused.json.code, 'vm_unavailable', refused.text);
    assert.match(refused.text, reason);
    const { json } = await other.request('GET', '/v1/info');
    const row = json.host.find(({ name }: { name: string }) => name === 'vmm');
    assert.equal(row.state, reason.source.includes('names no') ? 'missing' : 'ok');
  }
});
