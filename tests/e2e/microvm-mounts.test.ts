/**
 * Volumes and directories of the host in a microVM: what the launcher attaches outside is what the guest sees, with its owners, and what
 * is read-only stays so outside the guest. And what a microVM holds now, against a snapshot of it.
 */
import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { OutMessage } from '@squash/contract/groups';
import { squashOk } from '../support/cli.ts';
import { vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { isSingleId } from '../support/data-session.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

let directory: string;
let daemon: TestDaemon;
let dev: string;
/** Of a file's owner: where sandboxes have one id it is root's. */
let ids: number;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'squash-microvm-mounts-'));
  await chmod(directory, 0o755);
  await mkdir(join(directory, 'shown'));
  await writeFile(join(directory, 'shown', 'from-host'), 'of the host\n');
  await writeFile(join(directory, 'shown', '.env'), 'KEY=1\n');
  daemon = await TestDaemon.start({
    modules: { '900-vmm': await vmModule() },
    files: { 'host-directories.json': JSON.stringify([{ path: join(directory, 'shown'), hides: ['.env'] }]) },
  });
  await daemon.call('POST', '/v1/volumes', { name: 'data' });
  const mounts = [
    '--volume',
    'data:/srv/the data',
    '--mount',
    `${join(directory, 'shown')}:/srv/the data/shown`,
  ];
  dev = (await squashOk(daemon, ['create', 'dev', '--backend', 'vm', '--memory', '128', ...mounts])).trim();
  assert.equal((await daemon.call('GET', `/v1/sandboxes/${dev}`)).backend, 'vm');
  ids = (await isSingleId(daemon)) ? 0 : 1000;
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

async function run(cmd: string, id = dev): Promise<Answer['json']> {
  return await daemon.call('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd });
}

async function output(cmd: string, id = dev): Promise<string> {
  const { exit_code: code, stdout, stderr } = await run(cmd, id);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

test('a guest has volumes and directories of the host, with owners, and writes where it may', async () => {
  assert.equal(await output('cat "/srv/the data/shown/from-host"'), 'of the host');
  assert.equal(await output('wc -c <"/srv/the data/shown/.env"'), '0');
  await output(
    `cd "/srv/the data" && echo one >file && chown ${ids}:${ids} file && chmod 640 file && ln -s file link`,
  );
  assert.equal(await output('stat -c "%a %u %g" "/srv/the data/file"'), `640 ${ids} ${ids}`);
  const { exit_code: code, stderr } = await run('echo no >"/srv/the data/shown/from-host"');
  assert.notEqual(code, 0);
  assert.match(stderr, /Read-only/);
  assert.equal(await readFile(join(directory, 'shown', 'from-host'), 'utf8'), 'of the host\n');
  await writeFile(join(directory, 'shown', 'later'), 'written later\n');
  assert.equal(await output('cat "/srv/the data/shown/later"'), 'written later');
});

test('a mount on what is no directory is refused as for any sandbox', async () => {
  await daemon.call('POST', '/v1/volumes', { name: 'nowhere' });
  const mounts = [{ volume: 'nowhere', path: '/bin/sh' }];
  const told: unknown[] = [];
  for (const backend of ['vm', 'chroot']) {
    const refused = await daemon.request('POST', '/v1/sandboxes', { backend, memory_mb: 128, mounts });
    assert.match(refused.text, /\/bin\/sh.* in the sandbox is no directory/);
    told.push([refused.status, refused.json.code]);
  }
  assert.deepEqual(told, [
    [409, 'mount_refused'],
    [409, 'mount_refused'],
  ]);
});

test('a layer that has directories where a start attaches files can be started, and they stay in the layer', async () => {
  const layer = join(directory, 'odd');
  for (const name of ['hosts', 'resolv.conf']) {
    await mkdir(join(layer, 'etc', name, 'deep'), { recursive: true });
    await writeFile(join(layer, 'etc', name, 'deep', 'file'), 'of the layer\n');
  }
  await squashOk(daemon, ['module', 'build', 'from-dir', layer, '300-odd']);
  for (const backend of ['chroot', 'vm']) {
    const from = { layers: ['000-base-test', '300-odd'] };
    const { id } = await daemon.call('POST', '/v1/sandboxes', { backend, memory_mb: 128, from });
    assert.equal(
      await output('grep -c localhost /etc/hosts; ls -d /etc/hosts* /etc/resolv*', id),
      '2\n/etc/hosts\n/etc/resolv.conf',
    );
    await daemon.call('DELETE', `/v1/sandboxes/${id}`);
  }
});

test('what is read-only is so for the program that serves it to the guest', async () => {
  const server = processesOf(daemon.dataDir).find(({ command }) => command.includes('virtiofsd'));
  const mounts = await readFile(`/proc/${server?.pid}/mountinfo`, 'utf8');
  assert.match(mounts, / \/mounts\/0 rw,/);
  assert.match(mounts, / \/mounts\/1 ro,/);
});

test('a guest that runs gets and loses none; what it has is told', async () => {
  const { items } = await daemon.call('GET', `/v1/sandboxes/${dev}/mounts`);
  assert.equal(items.length, 2);
  await daemon.call('POST', '/v1/volumes', { name: 'more' });
  for (const [method, path, body] of [
    ['POST', 'mounts', { volume: 'more', path: '/more' }],
    ['DELETE', `mounts/${items[1].id}`, undefined],
  ] as const) {
    const answer = await daemon.request(method, `/v1/sandboxes/${dev}/${path}`, body);
    assert.equal(answer.status, 409, answer.text);
    assert.equal(answer.json.code, 'vm_unsupported');
  }
});

/** It saves itself as it was asked to. */
async function timeIsOver(): Promise<void> {
  await daemon.call('PATCH', `/v1/sandboxes/${dev}`, { on_timeout: 'snapshot', lifetime_s: 1 });
  await waitFor('it to be stopped', async () => {
    const { state } = await daemon.call('GET', `/v1/sandboxes/${dev}`);
    return state === 'stopped';
  });
  const { items } = await daemon.call('GET', `/v1/sandboxes/${dev}/snapshots`);
  assert.equal(items.length, 2);
  await daemon.call('PATCH', `/v1/sandboxes/${dev}`, { lifetime_s: null });
}

test('what it holds now is compared with a snapshot, and saved when its time is over; stopped it is compared, too', async () => {
  await output('echo same >/same; echo one >/changed; mkdir /gone');
  await daemon.call('POST', `/v1/sandboxes/${dev}/snapshots`, { label: 'one' });
  await output('echo two >/changed; rmdir /gone; echo new >/root/added');
  const path = `/v1/sandboxes/${dev}/snapshots/one/diff?against=current`;
  const told = async (): Promise<readonly string[]> => {
    const { items } = await daemon.call('GET', path);
    return (items as { change: string; path: string }[])
      .map(({ change, path: where }) => `${change} ${where}`)
      .filter((line) => !/^changed \/(root|srv.*)?$/.test(line));
  };
  const changes = ['changed /changed', 'removed /gone', 'added /root/added'];
  assert.deepEqual(await told(), changes);
  await timeIsOver();
  await daemon.call('POST', `/v1/sandboxes/${dev}/pause`, { keep: 'files' });
  assert.deepEqual(await told(), changes);
});

test('one that was stopped has them again, and another backend what a guest wrote', async () => {
  const { items } = await daemon.call('GET', `/v1/sandboxes/${dev}/mounts`);
  await daemon.call('DELETE', `/v1/sandboxes/${dev}/mounts/${items[1].id}`);
  await daemon.call('POST', `/v1/sandboxes/${dev}/mounts`, { volume: 'more', path: '/more' });
  await daemon.call('POST', `/v1/sandboxes/${dev}/resume`);
  assert.equal(
    await output('cat "/srv/the data/link"; echo more >/more/file; ls "/srv/the data/shown"'),
    'one',
  );
  await daemon.call('DELETE', `/v1/sandboxes/${dev}`);
  const { id: beside } = await daemon.call('POST', '/v1/sandboxes', {
    backend: 'chroot',
    mounts: [
      { volume: 'data', path: '/data' },
      { volume: 'more', path: '/more' },
    ],
  });
  assert.equal(
    await output('stat -c "%a %u %g" /data/file; cat /data/link /more/file', beside),
    `640 ${ids} ${ids}\none\nmore`,
  );
});

test('disks of layers that no microVM stands on any more go with the trees', async () => {
  const { trees_removed: would, bytes_freed: bytes } = await daemon.call('POST', '/v1/gc', { dry_run: true });
  assert.ok(would >= 1 && bytes > 100_000, `${would}, ${bytes}`);
  const { trees_removed: removed } = await daemon.call('POST', '/v1/gc', {});
  assert.equal(removed, would);
  const { trees_removed: left } = await daemon.call('POST', '/v1/gc', { dry_run: true });
  assert.equal(left, 0);
});

test('a group whose backend is vm has its runs in guests, with folder and session', async (context) => {
  if (await isSingleId(daemon)) return context.skip('single-id mode: there is no uid 1000');
  const shell = 'uname -r; id -u; cat log "$HOME/log"; echo again | tee log >"$HOME/log"';
  await daemon.call('POST', '/v1/groups', {
    name: 'guests',
    tier: 'untrusted',
    backend: 'vm',
    memory_mb: 128,
    command: ['sh', '-c', shell],
  });
  await daemon.call('POST', '/v1/chats', { name: 'guests', group: 'guests' });
  const heard = async (): Promise<string> => {
    const { run } = await daemon.call('POST', '/v1/chats/guests/messages', { sender: 'ann', text: 'go' });
    await waitFor(
      'the run to end',
      async () => (await daemon.call('GET', '/v1/groups/guests/runs')).items[0].finished_at !== null,
      60_000,
    );
    const { items } = await daemon.call('GET', '/v1/chats/guests/messages');
    return (items as OutMessage[])
      .filter((said) => said.run === run)
      .map(({ text }) => text)
      .join('');
  };
  const [kernel, ...rest] = (await heard()).split('\n');
  assert.notEqual(kernel, release());
  assert.deepEqual(rest, ['1000', '']);
  assert.equal(await heard(), `${kernel}\n1000\nagain\nagain\n`);
  await waitFor(
    'it to be gone',
    async () => (await daemon.request('DELETE', '/v1/groups/guests')).status === 204,
  );
});
