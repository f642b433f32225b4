/**
 * Directories of the host in sandboxes: what the operator allows is there, and every way that leads past it is tried. Runs as root and as
 * an ordinary user, for whom other ids are the sandboxes'.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { atRest } from '../support/at-rest.ts';
import { isOnVms } from '../support/backend.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { isSingleId } from '../support/data-session.ts';
import { giveToSandboxes, sandboxesRoot } from '../support/give-to-sandboxes.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const boxes = '/cgi-bin/api/sandboxes';
const mounts = '/v1/sandboxes/box/mounts';
const list = 'host-directories.json';

/** Half of them may be hidden in one mount. */
const numbered = (word: string): readonly string[] => Array.from({ length: 64 }, (_, at) => `${word}${at}`);
const hides = ['.env', '.ssh', 'config/keys.json', 'absent'];

const stack = new AsyncDisposableStack();
let daemon: TestDaemon;
let hasOneId: boolean;
/** What everybody may read, and holds what the tests make. */
let host: string;

function directory(name: string, files: Readonly<Record<string, string>> = {}): string {
  const path = join(host, name);
  mkdirSync(path, { recursive: true, mode: 0o755 });
  for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
  return path;
}

async function sh(cmd: string): Promise<{ readonly exitCode: number; readonly output: string }> {
  const { exit_code, stdout, stderr } = await daemon.call('POST', `${boxes}/box/exec`, { cmd });
  return { exitCode: exit_code, output: `${stdout}${stderr}` };
}

/** What of a directory keeps one from starting that has to be stopped for it, such as a microVM, refuses it, too. */
async function attach(wish: Readonly<Record<string, string>>): Promise<Answer> {
  const asked = () => daemon.request('POST', mounts, { path: '/host', ...wish });
  const isRested = isOnVms || (hasOneId && wish['mode'] === 'rw');
  if (!isRested || (await daemon.call('GET', '/v1/sandboxes/box')).state !== 'ready') return await asked();
  await daemon.call('POST', '/v1/sandboxes/box/pause', { keep: 'files' });
  const answer = await asked();
  const started = await daemon.request('POST', '/v1/sandboxes/box/resume');
  if (started.status < 400) return answer;
  await detach(answer.json.id);
  await daemon.call('POST', '/v1/sandboxes/box/resume');
  return started;
}

async function detach(mount: string): Promise<void> {
  await resting(() => daemon.call('DELETE', `${mounts}/${mount}`));
}

function resting<T>(change: () => Promise<T>): Promise<T> {
  return atRest(daemon, 'box', change);
}

/** What `body` finds with the directory attached at /host; afterwards it is detached. */
async function attached<T>(wish: Readonly<Record<string, string>>, body: () => Promise<T>): Promise<T> {
  const { status, json } = await attach(wish);
  assert.equal(status, 201, JSON.stringify(json));
  const result = await body();
  await detach(json.id);
  return result;
}

/** The same of one that is detached when the sandbox is stopped. */
async function attachedToStopped(
  wish: Readonly<Record<string, string>>,
  body: () => Promise<void>,
): Promise<void> {
  const { status, json } = await attach(wish);
  assert.equal(status, 201, JSON.stringify(json));
  await body();
  await daemon.call('POST', '/v1/sandboxes/box/pause', { keep: 'files' });
  await daemon.call('DELETE', `${mounts}/${json.id}`);
  await daemon.call('POST', '/v1/sandboxes/box/resume');
}

async function refusal(wish: Readonly<Record<string, string>>): Promise<string> {
  const { status, json } = await attach(wish);
  assert.equal(status, 403, JSON.stringify(json));
  assert.equal(json.code, 'host_directory_refused');
  return /\((\w+)\)$/.exec(json.detail)?.[1] ?? json.detail;
}

before(async () => {
  host = mkdtempSync(join(tmpdir(), ownedPrefix('test')));
  stack.defer(() => rmSync(host, { recursive: true }));
  chmodSync(host, 0o755);
  const entries = [
    { path: join(host, 'open') },
    { path: join(host, 'work'), mode_max: 'rw' },
    { path: join(host, 'shown'), shows: ['.env'] },
    { path: join(host, 'hiding'), mode_max: 'rw', hides },
    ...['a', 'b'].map((word) => ({ path: join(host, 'many'), hides: numbered(word) })),
    { path: join(host, 'alices'), owners: ['alice'] },
    { path: '/proc' },
    { path: '/etc' },
  ];
  directory('secret', { key: 'secret of the host\n' });
  directory('open', { file: 'open\n' });
  directory('open/sub', { file: 'sub\n' });
  directory('alices');
  giveToSandboxes(directory('work'));
  daemon = stack.use(await TestDaemon.start({ files: { [list]: JSON.stringify(entries) } }));
  await daemon.call('POST', boxes, { id: 'box', layers: '000-base-test' });
  hasOneId = await isSingleId(daemon);
});

after(() => stack.disposeAsync());

test('a directory is read and never written when it is attached without a mode', async () => {
  await attached({ host: join(host, 'open') }, async () => {
    const { output } = await sh('cat /host/file; grep " /host " /proc/self/mountinfo');
    assert.match(output, /^open\n.* \/host ro,nosuid,nodev/);
    const tries = [
      'echo >/host/new',
      'echo >>/host/file',
      'rm /host/file',
      'mv /host/file /host/other',
      'ln /host/file /host/other',
      'chmod 777 /host/file',
      'mount -o remount,rw /host',
      'mount -o remount,bind,rw /host',
      'umount /host',
      'umount -l /host',
      'mount -o bind /host /mnt && echo >/mnt/new',
      'unshare -rm mount -o remount,bind,rw /host',
      'unshare -m umount /host',
    ];
    for (const attempt of tries) assert.notEqual((await sh(attempt)).exitCode, 0, attempt);
  });
  assert.deepEqual(readdirSync(join(host, 'open')).sort(), ['file', 'sub']);
});

test('what a sandbox writes belongs to the sandboxes when the directory is attached for writing, and gains nobody anything', async () => {
  const path = join(host, 'work');
  await attached({ host: path, mode: 'rw' }, async () => {
    const { exitCode, output } = await sh(
      'echo 1 >/host/new; cp /bin/busybox /host/su; chmod 6755 /host/su; test -u /host/su; echo $?; grep " /host " /proc/self/mountinfo',
    );
    assert.equal(exitCode, 0, output);
    assert.match(output, / \/host rw,nosuid,nodev/);
    // With one id it is that of whoever started the daemon.
    if (!isOnVms) assert.match(output, hasOneId ? /^1$/m : /^0$/m);
    assert.notEqual((await sh('mknod /host/disk b 8 0')).exitCode, 0);
    assert.notEqual((await sh('ln /bin/busybox /host/outer')).exitCode, 0);
  });
  const { uid } = statSync(join(path, 'new'));
  if (process.getuid?.() === 0) assert.equal(uid, sandboxesRoot);
  else assert.notEqual(uid, 0);
  await attached({ host: path, mode: 'rw' }, async () =>
    assert.equal((await sh('rm /host/new /host/su')).exitCode, 0),
  );
  assert.deepEqual(readdirSync(path), []);
});

test('with one id, which is that of whoever started the daemon, a sandbox makes no set-uid file for others to become him by', async () => {
  const path = directory('single');
  chmodSync(path, 0o777);
  const entries = JSON.stringify([{ path, mode_max: 'rw' }]);
  await using single = await TestDaemon.start({ env: { SQUASH_IDS: 'single' }, files: { [list]: entries } });
  const mount = { host: path, path: '/host', mode: 'rw' };
  const make = 'cp /bin/busybox /host/su; chmod 6755 /host/su; cp /bin/busybox /tmp/su && chmod 6755 /tmp/su';
  const made = async (id: string): Promise<number> => {
    const { exit_code } = await single.call('POST', `/v1/sandboxes/${id}/exec`, {
      argv: ['sh', '-c', make],
    });
    return exit_code;
  };
  const setIds = (): number => statSync(join(path, 'su')).mode & 0o6000;
  const { id: begun } = await single.call('POST', '/v1/sandboxes', { mounts: [mount] });
  await made(begun);
  assert.equal(setIds(), 0);
  const { id: later } = await single.call('POST', '/v1/sandboxes', {});
  const { status, json } = await single.request('POST', `/v1/sandboxes/${later}/mounts`, mount);
  if (status === 201) await made(later);
  assert.equal(setIds(), 0);
  assert.deepEqual([status, json.code], [409, isOnVms ? 'vm_unsupported' : 'mount_refused']);
  // Who has none of it may make what does nothing anywhere.
  assert.equal(await made(later), 0);
});

test('a directory is refused with its reason when the list does not have it for this sandbox', () =>
  resting(async () => {
    for (const [path, reason] of [
      [join(host, 'secret'), 'not_allowed'],
      [host, 'not_allowed'],
      ['/', 'not_allowed'],
      [join(host, 'opener'), 'not_allowed'],
      [`${join(host, 'open')}/../secret`, 'path_malformed'],
      [`${join(host, 'open')}/`, 'path_malformed'],
      [`${join(host, 'open')}/.`, 'path_malformed'],
      [`/${join(host, 'open')}`, 'path_malformed'],
      ['open', 'path_malformed'],
      [join(host, 'open', 'none'), 'not_found'],
      [join(host, 'open', 'file'), 'not_a_directory'],
      [join(host, 'alices'), 'owner_not_allowed'],
      [join(host, 'open', '.ssh'), 'credentials'],
      [join(host, 'open', 'a', '.AWS', 'b'), 'credentials'],
      ['/proc/self/fd', 'system_path'],
      ['/proc/self/root', 'system_path'],
      ['/etc', 'system_path'],
      ['/etc/ssl', 'system_path'],
    ] as const)
      assert.equal(await refusal({ host: path }), reason, path);
    assert.equal(await refusal({ host: join(host, 'open'), mode: 'rw' }), 'read_only');
    assert.deepEqual((await daemon.call('GET', mounts)).items, []);
  }));

test('a directory is refused when a link leads to it, credentials lie in it or it is closed', async () => {
  symlinkSync(join(host, 'secret'), join(host, 'open', 'link'));
  for (const path of ['link', 'link/deeper'])
    assert.equal(await refusal({ host: join(host, 'open', path) }), 'link_in_path');
  rmSync(join(host, 'open', 'link'));
  directory('open/home/.ssh');
  assert.equal(await refusal({ host: join(host, 'open', 'home') }), 'credentials');
  directory('open/project', { '.env': 'KEY=1' });
  assert.equal(await refusal({ host: join(host, 'open', 'project') }), 'credentials');
  directory('open/engine', { 'docker.sock': '' });
  assert.equal(await refusal({ host: join(host, 'open', 'engine') }), 'container_socket');
  directory('shown', { '.env': 'KEY=1' });
  await attached({ host: join(host, 'shown') }, async () =>
    assert.equal((await sh('cat /host/.env')).output, 'KEY=1'),
  );
  for (const name of ['home', 'project', 'engine']) rmSync(join(host, 'open', name), { recursive: true });
});

/** Each leads to what is hidden, or takes it away, where nothing lies over it. */
const seeks = [
  'cat /host/.env /host/config/keys.json /host/.ssh/*',
  'echo >/host/.env',
  'rm -f /host/.env',
  'rm -rf /host/.ssh',
  'mv /host/.env /host/other && cat /host/other',
  'ln /host/.env /host/other && cat /host/other',
  'mv /host/config /host/moved && cat /host/moved/keys.json',
  'umount /host/.env; umount -l /host/.env; cat /host/.env',
  'unshare -rm sh -c "umount /host/.env; umount -l /host/.env; mount -o bind /host /mnt; cat /mnt/.env /host/.env"',
  'cat /proc/1/root/host/.env',
  'cp -r /host /tmp/copy; cat /tmp/copy/.env /tmp/copy/.ssh/* /tmp/copy/config/*; rm -rf /tmp/copy',
];

test('names that the list hides are seen empty, whether the sandbox runs already or begins with them, and nobody inside uncovers one', async () => {
  const path = directory('hiding', { '.env': 'KEY=1', file: 'file' });
  directory('hiding/.ssh', { id: 'KEY=2' });
  directory('hiding/config', { 'keys.json': 'KEY=3', other: 'other' });
  for (const name of ['', '.ssh', 'config', '.env', 'config/keys.json']) giveToSandboxes(join(path, name));
  const check = async (id: string): Promise<void> => {
    const { stdout } = await daemon.call('POST', `${boxes}/${id}/exec`, {
      cmd: 'cd /host; cat file config/other; wc -c <.env; wc -c <config/keys.json; ls -A .ssh',
    });
    assert.equal(stdout, 'fileother0\n0\n');
    for (const cmd of seeks) {
      const { stdout: out, stderr } = await daemon.call('POST', `${boxes}/${id}/exec`, { cmd });
      assert.doesNotMatch(`${out}${stderr}`, /KEY=/, cmd);
    }
    assert.equal(readFileSync(join(path, '.env'), 'utf8'), 'KEY=1');
    assert.deepEqual(readdirSync(join(path, '.ssh')), ['id']);
    assert.equal(readFileSync(join(path, 'config/keys.json'), 'utf8'), 'KEY=3');
  };
  const wish = { host: path, path: '/host', mode: 'rw' };
  const { json, status } = await attach(wish);
  assert.equal(status, 201, JSON.stringify(json));
  await check('box');
  const busy = await daemon.request('DELETE', `${mounts}/${json.id}`);
  // Of a microVM that runs nothing is detached.
  assert.deepEqual([busy.status, busy.json.code], [409, isOnVms ? 'vm_unsupported' : 'mount_busy']);
  await daemon.call('POST', '/v1/sandboxes/box/pause', { keep: 'files' });
  await daemon.call('DELETE', `${mounts}/${json.id}`);
  await daemon.call('POST', '/v1/sandboxes/box/resume');
  const from = { layers: ['000-base-test'] };
  await daemon.call('POST', '/v1/volumes', { name: 'beside' });
  const more = [
    { host: directory('hiding/sub', { '.env': 'KEY=4', file: 'sub' }), path: '/again', mode: 'ro' },
    { volume: 'beside', path: '/volume' },
  ];
  const { id } = await daemon.call('POST', '/v1/sandboxes', { name: 'hider', from, mounts: [wish, ...more] });
  await check(id);
  const cmd = 'cat /again/file; wc -c </again/.env; ls -d /volume';
  assert.equal((await daemon.call('POST', `${boxes}/${id}/exec`, { cmd })).stdout, 'sub0\n/volume\n');
  await daemon.call('DELETE', `/v1/sandboxes/${id}`);
  await daemon.call('DELETE', '/v1/volumes/beside');
  rmSync(join(path, '.env'));
  symlinkSync('file', join(path, '.env'));
  assert.match(await refusal(wish), /"\.env" can't be hidden/);
  rmSync(path, { recursive: true });
});

test('what the list hides stays hidden from whoever takes a directory on the way to it, or renames one for the next start', async () => {
  const path = directory('hiding', { '.env': 'KEY=1' });
  directory('hiding/.ssh/deep', { id: 'KEY=2' });
  directory('hiding/config', { 'keys.json': 'KEY=3' });
  for (const name of ['', '.ssh', 'config', 'config/keys.json']) giveToSandboxes(join(path, name));
  const mount = { host: path, path: '/host', mode: 'rw' };
  const from = { layers: ['000-base-test'] };
  const { id } = await daemon.call('POST', '/v1/sandboxes', { name: 'mover', from, mounts: [mount] });
  const moved = await daemon.call('POST', `${boxes}/${id}/exec`, { cmd: 'mv /host/config /host/moved' });
  assert.match(moved.stderr, /busy/);
  await daemon.call('POST', `/v1/sandboxes/${id}/pause`, { keep: 'files' });
  await daemon.call('POST', `/v1/sandboxes/${id}/resume`);
  const { stdout } = await daemon.call('POST', `${boxes}/${id}/exec`, {
    cmd: 'grep -r KEY= /host; ls -A /host',
  });
  assert.equal(stdout, '.env\n.ssh\nconfig\n');
  await daemon.call('DELETE', `/v1/sandboxes/${id}`);
  const config = { host: join(path, 'config'), path: '/host' };
  const below = await daemon.call('POST', '/v1/sandboxes', { name: 'below', from, mounts: [config] });
  const seen = await daemon.call('POST', `${boxes}/${below.id}/exec`, { cmd: 'cd /host; ls; cat *' });
  assert.equal(seen.stdout, 'keys.json\n');
  await daemon.call('DELETE', `/v1/sandboxes/${below.id}`);
  assert.equal(await refusal({ host: join(path, 'absent', 'x') }), 'blocked_name');
  rmSync(path, { recursive: true });
});

test('no more is hidden in one mount than one request holds, and a directory with more is refused', async () => {
  const files = (names: readonly string[]): Record<string, string> =>
    Object.fromEntries(names.map((name) => [name, 'KEY=5']));
  const path = directory('many', files(numbered('a')));
  await attachedToStopped({ host: path }, async () => {
    const { output } = await sh('ls /host | wc -l; cat /host/*');
    assert.equal(output, '64\n');
  });
  directory('many', files(['b0']));
  assert.equal(await refusal({ host: path }), 'blocked_name');
  rmSync(path, { recursive: true });
});

test('a directory that only root of the host reads stays closed when the list allows it', async (context) => {
  if (process.getuid?.() !== 0) return context.skip('needs root');
  chmodSync(directory('open/closed', { key: 'secret' }), 0o700);
  assert.equal(await refusal({ host: join(host, 'open', 'closed') }), 'not_readable');
  directory('work/roots');
  assert.equal(await refusal({ host: join(host, 'work', 'roots'), mode: 'rw' }), 'not_writable');
  for (const path of ['open/closed', 'work/roots']) rmSync(join(host, path), { recursive: true });
});

test('a sandbox sees what was judged or nothing when the directory is exchanged for a link all the while', {
  skip: isOnVms ? 'a microVM gets a directory when it starts, too rarely for a race' : false,
}, async () => {
  const path = directory('open/race', { key: 'mine\n' });
  const aside = join(host, 'open', 'aside');
  const program = `
    const { renameSync, rmSync, symlinkSync } = require('node:fs');
    const [path, aside, secret, stop] = require('node:worker_threads').workerData;
    while (Atomics.load(stop, 0) === 0) {
      renameSync(path, aside); symlinkSync(secret, path); rmSync(path); renameSync(aside, path);
    }`;
  const stop = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(program, { eval: true, workerData: [path, aside, join(host, 'secret'), stop] });
  const ended = new Promise((resolve) => worker.once('exit', resolve));
  let shown = 0;
  try {
    for (let i = 0; i < 150; i += 1) {
      const { status, json } = await attach({ host: path });
      if (status !== 201) {
        assert.equal(json.code, 'host_directory_refused', JSON.stringify(json));
        continue;
      }
      shown += 1;
      assert.equal((await sh('cat /host/key')).output, 'mine\n');
      await detach(json.id);
    }
  } finally {
    Atomics.store(stop, 0, 1);
    await ended;
  }
  assert.ok(shown < 150, 'the link was never met');
  rmSync(path, { recursive: true });
});

test('a program does not get out when the directory it stands in is moved out of what is attached', async () => {
  directory('open/moving');
  await attached({ host: join(host, 'open') }, async () => {
    const cmd =
      'cd /host/moving; while ! [ -e /tmp/go ]; do sleep 0.05; done; ls .. ../.. ../secret; cat ../secret/key';
    const { job_id } = await daemon.call('POST', `${boxes}/box/exec-bg`, { cmd });
    await waitFor('the program to stand there', async () =>
      (await sh('ls -l /proc/[0-9]*/cwd')).output.includes('/host/moving'),
    );
    renameSync(join(host, 'open', 'moving'), join(host, 'moved'));
    await sh('touch /tmp/go');
    await waitFor(
      'the program to end',
      async () => (await daemon.call('GET', `${boxes}/box/jobs/${job_id}`)).status === 'done',
    );
    const { text } = await daemon.request('GET', `${boxes}/box/jobs/${job_id}/logs`);
    assert.match(text, /No such file/);
    assert.ok(!text.includes('secret of the host'), text);
    await sh('rm /tmp/go');
  });
});

test('a sandbox does not start when the operator has taken a directory back, and starts when it is detached', async () => {
  const path = join(host, 'open', 'sub');
  const { json } = await attach({ host: path });
  await daemon.kill();
  writeFileSync(join(daemon.dataDir, list), '[]');
  await daemon.start();
  await waitFor(
    'the sandbox to fail',
    async () => (await daemon.call('GET', `${boxes}/box`)).state === 'failed',
  );
  assert.match(daemon.output, /not_allowed/);
  await detach(json.id);
  assert.deepEqual((await sh('ls -A /host')).output, '');
});
