/**
 * Attacks on the levels of directories of the host: by programs that are root in the sandbox, by a client of the API, and by what a user of the
 * host does to the directory meanwhile. Runs as root and as an ordinary user.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { isSingleId } from '../support/data-session.ts';
import { giveToSandboxes } from '../support/give-to-sandboxes.ts';
import { ownedPrefix } from '../support/owned-directory.ts';

const noCow = isOnVms ? 'a microVM writes nothing copy-on-write to a directory of the host' : false;
const notRunning = isOnVms ? 'a microVM gets and loses no mount while it runs' : false;

const stack = new AsyncDisposableStack();
let daemon: TestDaemon;
let host: string;
let names = 0;
/** The sandboxes’ ids are others’ than those of whoever runs this test and makes the directories: then nothing is copy-on-write. */
let isOthers: boolean;

/** A directory that belongs to the sandboxes, with these files, and a name that no sandbox has yet. */
function tree(files: readonly string[], parent = 'open'): { readonly at: string; readonly box: string } {
  names += 1;
  const at = join(host, parent, `tree${names}`);
  mkdirSync(at, { recursive: true });
  giveToSandboxes(at);
  for (const file of files) put(at, file);
  return { at, box: `box${names}` };
}

/** A file with its own name in it, and the directories that it lies in. */
function put(at: string, file: string): void {
  const parts = file.split('/');
  for (const [index] of parts.slice(1).entries()) {
    const directory = join(at, ...parts.slice(0, index + 1));
    mkdirSync(directory, { recursive: true });
    giveToSandboxes(directory);
  }
  writeFileSync(join(at, file), `${file}\n`);
  giveToSandboxes(join(at, file));
}

async function create(box: string, ...mounts: readonly Readonly<Record<string, unknown>>[]): Promise<Answer> {
  const all = mounts.map((mount) => ({ path: '/work', ...mount }));
  return await daemon.request('POST', '/cgi-bin/api/sandboxes', {
    id: box,
    layers: '000-base-test',
    mounts: all,
  });
}

async function made(box: string, ...mounts: readonly Readonly<Record<string, unknown>>[]): Promise<void> {
  const { status, json } = await create(box, ...mounts);
  assert.equal(status, 201, JSON.stringify(json));
}

async function sh(box: string, cmd: string): Promise<string> {
  const { stdout, stderr } = await daemon.call('POST', `/cgi-bin/api/sandboxes/${box}/exec`, { cmd });
  return `${stdout}${stderr}`.trim();
}

async function stop(box: string): Promise<void> {
  await daemon.call('POST', `/v1/sandboxes/${box}/pause`, { keep: 'files' });
}

async function start(box: string): Promise<void> {
  await daemon.call('POST', `/v1/sandboxes/${box}/resume`);
}

before(async () => {
  host = mkdtempSync(join(tmpdir(), ownedPrefix('mount-attacks-')));
  chmodSync(host, 0o755);
  stack.defer(() => rmSync(host, { recursive: true, force: true }));
  const list = [
    { path: join(host, 'open'), mode_max: 'rw' },
    { path: join(host, 'hiding'), mode_max: 'rw', hides: ['secret', 'config/keys'] },
  ];
  daemon = stack.use(await TestDaemon.start({ files: { 'host-directories.json': JSON.stringify(list) } }));
  isOthers = process.getuid?.() !== 0 && !(await isSingleId(daemon));
});

after(() => stack.disposeAsync());

/** Whoever saves a file as most editors do, or checks out another branch, puts another one in its place. */
function replace(at: string, name: string, file: string): void {
  rmSync(join(at, `${name}.old`), { recursive: true, force: true });
  renameSync(join(at, name), join(at, `${name}.old`));
  put(at, file);
}

test('what is denied, masked or hidden in what is read stays so when a program of the host puts another in its place', async () => {
  for (const mode of ['ro', 'cow']) {
    if (mode === 'cow' && (isOnVms || isOthers)) continue;
    for (const [paths, closed] of [
      [{ key: 'deny' }, 'key'],
      [{ key: { mask: 'none' } }, 'key'],
      [{ keys: 'deny' }, 'keys/key'],
      [{ keys: 'hidden', 'keys/shown': 'ro' }, 'keys/key'],
      [{ keys: 'hidden', 'keys/shown': 'ro', 'keys/shown/x': 'deny' }, 'keys/shown/x'],
    ] as const) {
      const { at, box } = tree(['key', 'keys/key', 'keys/shown/x', 'other']);
      await made(box, { host: at, mode, paths });
      const seen = `cat /work/${closed} 2>/dev/null | grep key`;
      assert.equal(await sh(box, seen), '');
      replace(at, closed.split('/')[0] ?? '', closed);
      if (closed.startsWith('keys/')) put(at, 'keys/shown/x');
      assert.equal(await sh(box, seen), '', `${mode} ${JSON.stringify(paths)}`);
    }
  }
});

test('what is hidden in what is written copy-on-write stays hidden after the sandbox had something of its own there', {
  skip: noCow,
}, async () => {
  if (isOthers) return;
  const { at, box } = tree(['other']);
  await made(box, { host: at, mode: 'cow', paths: { key: 'hidden', 'deploy/key': 'deny' } });
  await sh(box, 'cd /work; touch key && rm key; mkdir deploy && rmdir deploy');
  put(at, 'key');
  put(at, 'deploy/key');
  assert.equal(await sh(box, 'cd /work; cat key deploy/key 2>/dev/null; ls'), 'other');
  await stop(box);
  await start(box);
  assert.equal(await sh(box, 'cd /work; cat key deploy/key 2>/dev/null; ls | grep key'), '');
});

test('a link at what the operator hides refuses the directory with levels as without', async () => {
  const { at, box } = tree(['real/keys', 'value'], 'hiding');
  for (const [link, to] of [
    ['config', 'real'],
    ['secret', 'value'],
  ] as const) {
    symlinkSync(to, join(at, link));
    for (const paths of [undefined, {}, { 'some/name': 'hidden' }]) {
      const { json } = await create(box, { host: at, ...(paths !== undefined && { paths }) });
      assert.equal(json.code, 'host_directory_refused', JSON.stringify([link, paths, json]));
    }
    rmSync(join(at, link));
  }
});

test('what is read stays read-only below another mount that is detached', { skip: notRunning }, async () => {
  const { at, box } = tree(['all/sub/file']);
  const { at: other } = tree(['above']);
  await made(
    box,
    { host: at, mode: 'rw', paths: { 'all/sub': 'ro', 'all/sub/later': 'hidden' } },
    { host: other, path: '/work/all/sub', mode: 'rw' },
  );
  assert.equal(await sh(box, 'cd /work/all/sub; ls; echo >new'), 'above');
  const { items } = await daemon.call('GET', `/v1/sandboxes/${box}/mounts`);
  await daemon.call('DELETE', `/v1/sandboxes/${box}/mounts/${items[1].id}`);
  assert.match(await sh(box, 'cd /work/all/sub; ls; echo >new'), /^file\n.*Read-only file system$/);
  assert.deepEqual(readdirSync(join(at, 'all/sub')), ['file']);
});

test('texts of masks go with their mount', async () => {
  const { at, box } = tree(['key']);
  await made(box, { host: at, paths: { key: { mask: 'none' } } });
  const masks = (): readonly string[] =>
    readdirSync(join(daemon.dataDir, 'sandboxes', box, '.meta')).filter((name) => name.includes('mask'));
  const [mount] = (await daemon.call('GET', `/v1/sandboxes/${box}/mounts`)).items;
  assert.deepEqual(masks(), [`${mount.id}-mask-1`]);
  await stop(box);
  await daemon.call('DELETE', `/v1/sandboxes/${box}/mounts/${mount.id}`);
  assert.deepEqual(masks(), []);
});

test('a sandbox that is stopped gets no levels that it could not start with', async () => {
  const { at, box } = tree(['key']);
  const { at: deep } = tree(['key']);
  await made(box, { host: at });
  await stop(box);
  const long = 'n'.repeat(255);
  for (const wish of [
    // A microVM’s paths are shorter.
    ...(isOnVms ? [] : [{ path: `/${long}/${long.slice(15)}`, paths: { key: 'deny' } }]),
    { path: '/w', paths: { [`${long}n`]: 'hidden' } },
  ]) {
    const { json } = await daemon.request('POST', `/v1/sandboxes/${box}/mounts`, { host: deep, ...wish });
    assert.equal(json.code, 'mount_limit', JSON.stringify(json));
  }
  const fits = { host: deep, path: '/w', paths: { [long]: 'hidden' } };
  await daemon.call('POST', `/v1/sandboxes/${box}/mounts`, fits);
  await start(box);
  assert.equal(await sh(box, 'ls /w'), 'key');
});

test('a sandbox that has used up its inodes starts again, and gets them back with the mount', {
  skip: noCow,
}, async () => {
  if (process.getuid?.() !== 0) return;
  await using small = await TestDaemon.start({
    env: { SQUASH_UPPER: 'tmpfs', SQUASH_UPPER_LIMIT_MB: '16' },
    files: { 'host-directories.json': JSON.stringify([{ path: join(host, 'open') }]) },
  });
  const { at } = tree(['file']);
  const mounts = [{ host: at, path: '/work', mode: 'cow' }];
  await small.call('POST', '/cgi-bin/api/sandboxes', { id: 'small', layers: '000-base-test', mounts });
  const run = async (cmd: string): Promise<string> =>
    (await small.call('POST', '/cgi-bin/api/sandboxes/small/exec', { cmd })).stdout.trim();
  const fill =
    'cd /work; (i=0; while : >f$i; do i=$((i+1)); done) 2>/dev/null; mkdir d 2>/dev/null || echo full';
  assert.equal(await run(fill), 'full');
  const stopped = (): Promise<unknown> => small.call('POST', '/v1/sandboxes/small/pause', { keep: 'files' });
  await stopped();
  await small.call('POST', '/v1/sandboxes/small/resume');
  assert.equal(await run('rm /work/f0 && cat /work/file'), 'file');
  assert.equal(await run(fill), 'full');
  await stopped();
  const [mount] = (await small.call('GET', '/v1/sandboxes/small/mounts')).items;
  await small.call('DELETE', `/v1/sandboxes/small/mounts/${mount.id}`);
  await small.call('POST', '/v1/sandboxes/small/resume');
  assert.equal(await run('for name in a b c d e f g h i j k; do : >/$name || exit; done; echo free'), 'free');
});

test('a mount of the same directory at the path of a level takes the level away neither when it comes nor when it goes', {
  skip: notRunning,
}, async () => {
  const { at, box } = tree(['vendor/file']);
  await made(box, { host: at, mode: 'rw', paths: { vendor: 'ro' } });
  const path = `/v1/sandboxes/${box}/mounts`;
  const wish = { host: join(at, 'vendor'), path: '/work/vendor' };
  const { status, json } = await daemon.request('POST', path, wish);
  if (status === 201) await daemon.request('DELETE', `${path}/${json.id}`);
  assert.match(await sh(box, 'echo >/work/vendor/new'), /Read-only file system/);
  assert.deepEqual([status, json.code], [409, 'mount_exists']);
});
