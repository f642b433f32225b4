/**
 * A sandbox that is a microVM, through the API: QEMU from the VM module boots Debian's kernel on the same layers, under the same
 * launcher, behind the same egress. It is emulated where KVM is missing, so each boot takes seconds, and the tests share one VM.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { packModule } from '../support/base-layer.ts';
import { squashOk } from '../support/cli.ts';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { type ProcessEntry, processesOf, sandboxCgroupsOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const sandboxes = '/cgi-bin/api/sandboxes';
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
let directory: string;
let outside: Server;
let daemon: TestDaemon;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'squash-microvm-'));
  const extra = join(directory, 'extra.squashfs');
  await packModule(extra, { 'opt/extra': 'of a module\n' });
  outside = createServer((_, response) => response.end('from outside')).listen(0, '127.0.0.1');
  await once(outside, 'listening');
  daemon = await TestDaemon.start({
    modules: { ...(await debianModules()), '900-vmm': await vmModule(), '200-extra': extra },
    env: { SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.1/32', SQUASH_BACKEND: 'vm' },
  });
  const made = await daemon.request('POST', sandboxes, {
    id: 'dev',
    layers: ['000-base-debian'],
    memory_mb: 256,
    allow_net: [`host.squash.internal:${outsidePort()}`],
  });
  assert.equal(made.status, 201, made.text);
  assert.equal(made.json.backend, 'vm');
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  outside.close();
  await rm(directory, { recursive: true });
});

const outsidePort = (): number => (outside.address() as AddressInfo).port;

async function run(cmd: string): Promise<Answer['json']> {
  const answer = await daemon.request('POST', `${sandboxes}/dev/exec`, { cmd });
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

async function output(cmd: string): Promise<string> {
  const { exit_code: code, stdout, stderr } = await run(cmd);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

function vmm(): ProcessEntry | undefined {
  return processesOf(daemon.dataDir).findLast(({ command }) => command.includes('qemu-system'));
}

/** By the freezer of its group, in either version of control groups; where an ordinary user has none, by signals. */
function standsStill(): boolean {
  const stat = readFileSync(`/proc/${vmm()?.pid}/stat`, 'latin1');
  if (/\) T /.test(stat)) return true;
  return sandboxCgroupsOf(daemon.dataDir).some((group) =>
    ['freezer.state', 'cgroup.events']
      .map((name) => join(group, name))
      .some((path) => existsSync(path) && /FROZEN|frozen 1/.test(readFileSync(path, 'utf8'))),
  );
}

async function send(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await daemon.request(method, path, body);
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

test('its commands run on its own kernel, over its layers, as in another sandbox', async () => {
  assert.notEqual(await output('uname -r'), release());
  assert.equal(await output('hostname; id -u; . /etc/os-release; echo $ID'), 'dev\n0\ndebian');
  const many = await run('head -c 60000 /dev/zero | tr "\\0" x; echo told >&2; exit 7');
  assert.equal(many.stdout.length, 60_000);
  assert.deepEqual([many.exit_code, many.stderr], [7, 'told\n']);
});

test('a sandbox of the other backend is beside it where one is asked for', async () => {
  const { json } = await send('POST', sandboxes, { id: 'beside', backend: 'chroot' });
  assert.equal(json.backend, 'chroot');
  const { json: ran } = await send('POST', `${sandboxes}/beside/exec`, { cmd: 'uname -r' });
  assert.equal(ran.stdout, `${release()}\n`);
});

test('it reaches what its policy names, and nothing else', async () => {
  const asked = (host: string): string =>
    `bash -c 'exec 3<>/dev/tcp/${host}/${outsidePort()} && printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3 && cat <&3'`;
  assert.match(await output(asked('host.squash.internal')), /from outside$/);
  // Its own loopback, its gateway, and a name that the policy has not.
  for (const host of ['127.0.0.1', '10.0.2.2', 'denied.example']) {
    assert.doesNotMatch((await run(asked(host))).stdout, /from outside/, host);
  }
  assert.match((await send('GET', '/v1/sandboxes/dev/egress')).text, /denied\.example/);
});

test('its files and ports are reached from outside', async () => {
  await writeFile(join(directory, 'sent'), 'x'.repeat(1_000_000));
  await squashOk(daemon, ['cp', join(directory, 'sent'), 'dev:/root/sent']);
  assert.equal(await output('sha256sum </root/sent'), `${sha256('x'.repeat(1_000_000))}  -`);
  await run(`nohup perl -MIO::Socket::INET -e '
    $s = IO::Socket::INET->new(LocalPort => 3000, Listen => 5) or die;
    while ($c = $s->accept) { sysread $c, $b, 4096; print $c "HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\nConnection: close\\r\\n\\r\\nserved"; close $c }
  ' >/dev/null 2>&1 &`);
  await output(
    'for i in $(seq 100); do bash -c ": </dev/tcp/127.0.0.1/3000" 2>/dev/null && exit; sleep 0.2; done; exit 1',
  );
  const [answer] = (await once(
    get({ port: daemon.port, headers: { host: `3000-dev.localhost:${daemon.port}` } }),
    'response',
  )) as [IncomingMessage];
  assert.equal(await text(answer), 'served');
});

test('a command that its kernel ends for want of memory is told as one', async () => {
  const { exit_code: code, reason } = await run('perl -e \'push @a, "x" x 1e6 while 1\'');
  assert.deepEqual([code, reason], [137, 'oom_killed']);
  assert.equal((await run('kill -9 $$')).reason, 'signaled');
});

test('what it has written is there after a stop, and with one module more', async () => {
  await output('echo kept >/root/kept; rm /etc/os-release');
  await send('POST', '/v1/sandboxes/dev/pause', { keep: 'files' });
  assert.equal(vmm(), undefined);
  await send('POST', '/v1/sandboxes/dev/resume');
  assert.equal(await output('cat /root/kept; test -e /etc/os-release || echo gone'), 'kept\ngone');
  await send('POST', `${sandboxes}/dev/activate`, { module: '200-extra' });
  assert.equal(await output('cat /root/kept /opt/extra'), 'kept\nof a module');
});

test('its snapshots are layers like any others, for both backends', async () => {
  const tell =
    'cd /data && stat -c "%n %F %a %u %h" * | sort && readlink link && cat file && test ! -e /etc/issue';
  await output(
    'mkdir /data && cd /data && echo one >file && ln file hard && ln -s file link && mkdir empty && chown 1000 empty && chmod 1751 empty && rm /etc/issue',
  );
  const before = await output(tell);
  // One that stands still can be saved, and goes on standing still.
  await send('POST', '/v1/sandboxes/dev/pause');
  await send('POST', `${sandboxes}/dev/snapshot`, { label: 'one' });
  assert.equal((await send('GET', '/v1/sandboxes/dev')).json.state, 'paused');
  assert.ok(standsStill());
  await send('POST', '/v1/sandboxes/dev/resume');
  const { json: beside } = await send('POST', '/v1/sandboxes', {
    from: { sandbox: 'dev' },
    backend: 'chroot',
  });
  assert.equal(beside.backend, 'chroot');
  const inFork = async (id: string, cmd: string): Promise<string> =>
    (await send('POST', `${sandboxes}/${id}/exec`, { cmd })).json.stdout.trim();
  assert.equal(await inFork(beside.id, tell), before);
  await inFork(beside.id, 'rm /data/hard; echo two >/data/more');
  const { json: back } = await send('POST', '/v1/sandboxes', { from: { sandbox: beside.id }, backend: 'vm' });
  assert.equal(
    await inFork(back.id, 'cd /data; echo *; cat more; uname -r'),
    `empty file link more\ntwo\n${await output('uname -r')}`,
  );
  await send('DELETE', `/v1/sandboxes/${back.id}`);
  await output('rm -r /data');
  await send('POST', `${sandboxes}/dev/restore`, { label: 'one' });
  assert.equal(await output(tell), before);
});

test('a daemon that dies leaves it running, and the next one takes it over', async () => {
  const before = vmm()?.pid;
  const boot = await output('cat /proc/sys/kernel/random/boot_id');
  await daemon.kill();
  await daemon.start();
  assert.equal(await output('cat /proc/sys/kernel/random/boot_id'), boot);
  assert.equal(vmm()?.pid, before);
});

test('one whose VMM dies is started again on its disk', async () => {
  await output('echo kept >/root/kept; sync');
  const boot = await output('cat /proc/sys/kernel/random/boot_id');
  process.kill(vmm()?.pid ?? 0, 'SIGKILL');
  await waitFor(
    'it to be ready again',
    async () => {
      const { json } = await daemon.request('GET', '/v1/sandboxes/dev');
      if (json.state !== 'ready') return false;
      const { exit_code: code, stdout } = await run('cat /proc/sys/kernel/random/boot_id');
      return code === 0 && stdout.trim() !== boot;
    },
    120_000,
  );
  assert.equal(await output('cat /root/kept'), 'kept');
});

test('it writes its disk out before all ends, also while it stands still', async () => {
  await output('echo stopped >/root/kept');
  await send('POST', '/v1/sandboxes/dev/pause');
  assert.match(await squashOk(daemon, ['stop', '--all']), /Their files stay\./);
  await daemon.ended();
  await daemon.start();
  await send('POST', '/v1/sandboxes/dev/resume');
  assert.equal(await output('cat /root/kept'), 'stopped');
});

test('what a microVM can not do is refused', async () => {
  const { json: volume } = await send('POST', '/v1/volumes', { name: 'v' });
  const mounted = await daemon.request('POST', '/v1/sandboxes/dev/mounts', {
    volume: volume.id,
    path: '/mnt',
  });
  assert.equal(mounted.status, 409, mounted.text);
  assert.match(mounted.text, /microVM can not get a mount while it runs/);
});

test('nothing is left of it when it is gone', async () => {
  await send('DELETE', `${sandboxes}/dev`);
  assert.equal(vmm(), undefined);
});

test('one that is removed while it boots is not waited for', async () => {
  const asked = { id: 'gone', layers: ['000-base-debian'], memory_mb: 192 };
  const making = daemon.request('POST', sandboxes, asked);
  const boots = (): boolean => vmm()?.command.includes('-m 192M') === true;
  await waitFor('its VMM', boots, 60_000);
  await send('DELETE', `${sandboxes}/gone`);
  assert.ok(!boots());
  const { status, json, text } = await making;
  assert.deepEqual([status, json.code], [404, 'sandbox_not_found'], text);
});
