/**
 * Directories of the host with levels, as a box has them: what is written copy-on-write stays in the sandbox, what is closed stays closed for
 * what comes there later, and the host has nothing of either. Runs as root and as an ordinary user.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
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
import { squash, squashOk } from '../support/cli.ts';
import { giveToSandboxes } from '../support/give-to-sandboxes.ts';
import { ownedPrefix } from '../support/owned-directory.ts';

/** A microVM has levels, but writes nothing copy-on-write. */
const noCow = isOnVms ? 'a microVM writes nothing copy-on-write to a directory of the host' : false;

const stack = new AsyncDisposableStack();
let daemon: TestDaemon;
let host: string;
let names = 0;
/** The sandboxes’ ids are others’ than those of whoever runs this test and makes the directories. */
let isOthers: boolean;

/**
 * A repository of the sandboxes’, and the name of a sandbox that none has yet. @param parent `shown`: the operator shows its .env
 */
function repository(parent = 'open'): { readonly at: string; readonly box: string } {
  names += 1;
  const at = join(host, parent, `repo${names}`);
  mkdirSync(join(at, 'vendor/lib'), { recursive: true });
  mkdirSync(join(at, 'src'));
  const files = {
    'a.txt': 'one',
    '.env': 'KEY=1',
    'src/main.ts': 'main',
    'vendor/lib/x': 'x',
    'gone.txt': 'g',
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(at, name), text);
  for (const name of ['', 'vendor', 'vendor/lib', 'src', ...Object.keys(files)])
    giveToSandboxes(join(at, name));
  return { at, box: `box${names}` };
}

/** So many names, with this level. */
function each(word: string, count: number, level = 'hidden'): Readonly<Record<string, string>> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`${word}${at}`, level]));
}

async function create(box: string, mount: Readonly<Record<string, unknown>>): Promise<Answer> {
  return await daemon.request('POST', '/cgi-bin/api/sandboxes', {
    id: box,
    layers: '000-base-test',
    mounts: [{ path: '/work', ...mount }],
  });
}

async function made(box: string, mount: Readonly<Record<string, unknown>>): Promise<void> {
  const { status, json } = await create(box, mount);
  assert.equal(status, 201, JSON.stringify(json));
}

async function sh(box: string, cmd: string): Promise<string> {
  const { stdout, stderr } = await daemon.call('POST', `/cgi-bin/api/sandboxes/${box}/exec`, { cmd });
  return `${stdout}${stderr}`.trim();
}

async function restart(box: string): Promise<void> {
  await daemon.call('POST', `/v1/sandboxes/${box}/pause`, { keep: 'files' });
  await daemon.call('POST', `/v1/sandboxes/${box}/resume`);
}

async function refusal(box: string, mount: Readonly<Record<string, unknown>>): Promise<string> {
  const { status, json } = await create(box, mount);
  assert.ok(status >= 400, JSON.stringify(json));
  return `${json.code}: ${json.detail ?? json.message ?? json.error}`;
}

before(async () => {
  host = mkdtempSync(join(tmpdir(), ownedPrefix('mount-levels-')));
  chmodSync(host, 0o755);
  stack.defer(() => rmSync(host, { recursive: true, force: true }));
  mkdirSync(join(host, 'given/sub'), { recursive: true });
  mkdirSync(join(host, 'given/closed'));
  const list = [
    { path: join(host, 'open'), mode_max: 'rw' },
    { path: join(host, 'shown'), mode_max: 'rw', shows: ['.env'] },
    { path: join(host, 'given'), hides: ['closed'] },
  ];
  daemon = stack.use(await TestDaemon.start({ files: { 'host-directories.json': JSON.stringify(list) } }));
  isOthers = process.getuid?.() !== 0 && !(await isSingleId(daemon));
});

after(() => stack.disposeAsync());

test('what is written copy-on-write stays in the sandbox, and is there at its next start', {
  skip: noCow,
}, async () => {
  const { at, box } = repository();
  const wish = { host: at, mode: 'cow', paths: { '.env': 'hidden' } };
  if (isOthers) return assert.match(await refusal(box, wish), /\(not_writable\)/);
  await made(box, wish);
  const script = [
    'cd /work && echo two >a.txt && rm gone.txt && mkdir new && echo n >new/n && echo v >vendor/lib/y',
    'mv src/main.ts src/b.ts && echo >>src/b.ts',
  ].join(' && ');
  assert.equal(await sh(box, script), '');
  const seen = 'cd /work && cat a.txt new/n vendor/lib/y src/b.ts; ls -A';
  const now = await sh(box, seen);
  assert.equal(now.replaceAll('\n', ' '), 'two n v main a.txt new src vendor');
  const untouched = (): void => {
    assert.equal(readFileSync(join(at, 'a.txt'), 'utf8'), 'one');
    assert.deepEqual(readdirSync(at).toSorted(), ['.env', 'a.txt', 'gone.txt', 'src', 'vendor']);
    assert.deepEqual(readdirSync(join(at, 'src')), ['main.ts']);
  };
  untouched();
  await restart(box);
  assert.equal(await sh(box, seen), now);
  // It is of this mount: one that comes later begins with the host's.
  const { items } = await daemon.call('GET', `/v1/sandboxes/${box}/mounts`);
  await daemon.call('POST', `/v1/sandboxes/${box}/pause`, { keep: 'files' });
  await daemon.call('DELETE', `/v1/sandboxes/${box}/mounts/${items[0].id}`);
  const again = { host: at, path: '/other/place', mode: 'cow', paths: { '.env': 'deny' } };
  await daemon.call('POST', `/v1/sandboxes/${box}/mounts`, again);
  await daemon.call('POST', `/v1/sandboxes/${box}/resume`);
  const other = 'cd /other/place && cat a.txt .env; cat .env 2>/dev/null; ls -A; echo three >a.txt';
  assert.equal(await sh(box, other), 'one.env\na.txt\ngone.txt\nsrc\nvendor');
  untouched();
  // A snapshot has nothing of it, and what is put back begins with the host's.
  await daemon.call('POST', `/cgi-bin/api/sandboxes/${box}/snapshot`, { label: 's1' });
  await daemon.call('POST', `/cgi-bin/api/sandboxes/${box}/restore`, { label: 's1' });
  assert.equal(await sh(box, 'cat /other/place/a.txt'), 'one');
});

test('levels in a directory that is open for writing: what is closed, read-only or masked is so for root, too', async () => {
  const { at, box } = repository('shown');
  const paths = {
    '.env': { mask: 'KEY=none\n' },
    vendor: 'ro',
    'vendor/lib': 'rw',
    src: 'deny',
    'gone.txt': 'hidden',
  };
  await made(box, { host: at, mode: 'rw', paths });
  assert.equal(await sh(box, 'cd /work && echo two >a.txt && echo y >vendor/lib/y && cat .env'), 'KEY=none');
  assert.equal(readFileSync(join(at, 'a.txt'), 'utf8'), 'two\n');
  assert.equal(readFileSync(join(at, 'vendor/lib/y'), 'utf8'), 'y\n');
  const tries = [
    'echo x >.env',
    'rm -f .env',
    'mv .env e',
    'ls -A src | grep .',
    'cat src/main.ts',
    'mv src s',
    'rmdir src',
    'umount src',
    'cat gone.txt | grep .',
    'rm -f gone.txt',
    'echo >vendor/new',
    'rmdir vendor/lib',
    'mount -o remount,rw vendor',
  ];
  const failed = await sh(
    box,
    `cd /work; for t in ${tries.map((each) => `'${each}'`).join(' ')}; do sh -c "$t" >/dev/null 2>&1 && echo "$t"; done`,
  );
  assert.equal(failed, '');
  assert.equal(readFileSync(join(at, '.env'), 'utf8'), 'KEY=1');
  assert.deepEqual(readdirSync(join(at, 'src')), ['main.ts']);
  const [info] = (await daemon.call('GET', `/v1/sandboxes/${box}/mounts`)).items;
  assert.deepEqual(info.paths, paths);
  await restart(box);
  assert.equal(
    await sh(box, 'cd /work && cat .env a.txt vendor/lib/y; ls vendor; ls -A src'),
    'KEY=none\ntwo\ny\nlib',
  );
});

test('what is hidden in what is read is hidden when it comes later, or in another one’s place', async () => {
  const { at, box } = repository();
  await made(box, {
    host: at,
    paths: {
      '.env': 'hidden',
      later: 'hidden',
      'vendor/later': 'hidden',
      src: 'hidden',
      'src/main.ts': 'ro',
    },
  });
  const all = 'cd /work && find . -mindepth 1 | sort | tr "\\n" " "';
  assert.equal(
    await sh(box, all),
    './a.txt ./gone.txt ./src ./src/main.ts ./vendor ./vendor/lib ./vendor/lib/x',
  );
  for (const name of ['later', 'vendor/later', 'seen']) {
    mkdirSync(join(at, name));
    writeFileSync(join(at, name, 'f'), 'f');
  }
  rmSync(join(at, '.env'));
  writeFileSync(join(at, '.env'), 'NEW=1');
  writeFileSync(join(at, 'src/key'), 'k');
  const later = await sh(box, all);
  assert.doesNotMatch(later, /env|later|key/);
  await restart(box);
  assert.equal(
    await sh(box, all),
    './a.txt ./gone.txt ./seen ./seen/f ./src ./src/main.ts ./vendor ./vendor/lib ./vendor/lib/x',
  );
  assert.match(
    await sh(box, 'echo x >/work/a.txt; echo x >/work/new; mkdir /work/later'),
    /^(.*Read-only file system\n?){3}$/,
  );
});

test('a level that does not hold, or opens what the operator does not give, is refused with its reason', async () => {
  const { at, box } = repository();
  const hidden = { '.env': 'hidden' };
  symlinkSync('/etc', join(at, 'link'));
  const cases: readonly (readonly [wish: Readonly<Record<string, unknown>>, what: RegExp])[] = [
    [{ host: at, mode: 'rw', paths: { ...hidden } }, /^host_directory_refused: .*\(credentials\)/],
    [{ host: at, paths: { ...hidden, vendor: 'hidden', 'vendor/.ssh': 'ro' } }, /credentials/],
    [
      { host: at, mode: 'ro', paths: { ...hidden, missing: 'ro' } },
      /"[^"]*missing" of the host: .*\(level_unheld\)|not_found/,
    ],
    [{ host: at, paths: { ...hidden, link: 'ro' } }, /link_in_path/],
    [{ host: at, paths: { ...hidden, 'link/ssl': 'ro' } }, /link_in_path/],
    [{ host: join(host, 'given'), mode: 'rw' }, /read_only/],
    [{ host: join(host, 'given'), paths: { sub: 'rw' } }, /read_only/],
    [{ host: join(host, 'given'), paths: { closed: 'ro' } }, /blocked_name/],
    [{ host: at, paths: { '../x': 'ro' } }, /^invalid_request/],
    [{ host: at, paths: { '/x': 'ro' } }, /^invalid_request/],
    [{ host: at, paths: { ['__proto__']: 'hidden' } }, /^invalid_request/],
    [{ host: at, paths: { x: 'open' } }, /^invalid_request/],
    [{ volume: 'v', mode: 'cow' }, /^invalid_request/],
    [{ host: at, paths: { ...hidden, ...each('n', 64) } }, /^invalid_request/],
  ];
  for (const [wish, what] of cases) assert.match(await refusal(box, wish), what);
  const files = each('f', 60, 'ro');
  const mounts = Array.from({ length: 3 }, () => {
    const { at: full } = repository('shown');
    for (const name of Object.keys(files)) writeFileSync(join(full, name), '');
    return { host: full, path: `/${names}`, mode: 'rw', paths: files };
  });
  const { json } = await daemon.request('POST', '/cgi-bin/api/sandboxes', { id: box, mounts });
  assert.equal(json.code, 'mount_limit', JSON.stringify(json));
});

test('levels are of a start: a sandbox that runs neither gets nor loses them', async () => {
  const { at, box } = repository();
  const path = `/v1/sandboxes/${box}/mounts`;
  const wish = { host: at, path: '/work', paths: { '.env': 'hidden' } };
  await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: box, layers: '000-base-test' });
  const running = isOnVms ? 'vm_unsupported' : 'mount_refused';
  assert.equal((await daemon.request('POST', path, wish)).json.code, running);
  await daemon.call('POST', `/v1/sandboxes/${box}/pause`, { keep: 'files' });
  const { id } = await daemon.call('POST', path, wish);
  await daemon.call('POST', `/v1/sandboxes/${box}/resume`);
  assert.equal(await sh(box, 'ls -A /work | head -1'), 'a.txt');
  const lost = await daemon.request('DELETE', `${path}/${id}`);
  assert.equal(lost.json.code, isOnVms ? 'vm_unsupported' : 'mount_busy');
  // A new daemon takes the sandbox over with what it has.
  await daemon.kill();
  await daemon.start();
  assert.equal(await sh(box, 'ls -A /work | head -1'), 'a.txt');
});

test('what is written copy-on-write counts against the sandbox’s disk', { skip: noCow }, async () => {
  if (isOthers) return;
  await using small = await TestDaemon.start({
    env: { SQUASH_UPPER: 'directory', SQUASH_UPPER_LIMIT_MB: '16' },
    files: { 'host-directories.json': JSON.stringify([join(host, 'open')].map((path) => ({ path }))) },
  });
  const { at } = repository();
  const mounts = [{ host: at, path: '/work', mode: 'cow', paths: { '.env': 'hidden' } }];
  await small.call('POST', '/cgi-bin/api/sandboxes', { id: 'small', memory_mb: 64, mounts });
  const part = (name: string): readonly string[] =>
    readdirSync(join(small.dataDir, 'sandboxes/small/uppers', name, 'mounts/data'));
  const cmd = 'i=0; while :; do head -c 1000000 /dev/zero >/work/$i; i=$((i+1)); done';
  const { exit_code, reason } = await small.call('POST', '/cgi-bin/api/sandboxes/small/exec', { cmd });
  assert.deepEqual([exit_code, reason], [137, 'upper_full']);
  const [mount] = (await small.call('GET', '/v1/sandboxes/small/mounts')).items;
  const [upper = ''] = readdirSync(join(small.dataDir, 'sandboxes/small/uppers'));
  assert.deepEqual(part(upper), [mount.id]);
  await small.call('POST', '/v1/sandboxes/small/pause', { keep: 'files' });
  await small.call('DELETE', `/v1/sandboxes/small/mounts/${mount.id}`);
  await small.call('POST', '/v1/sandboxes/small/resume');
  assert.deepEqual(part(upper), []);
});

test('words of the command line and a policy file of boxes say the same', async () => {
  const { at, box } = repository();
  const list = 'find . -mindepth 1 -maxdepth 1 | sort | tr "\\n" " "; echo x >a.txt';
  const mode = isOnVms || isOthers ? 'ro' : 'cow';
  const seen =
    mode === 'ro'
      ? /^\.\/a\.txt \.\/gone\.txt \.\/vendor.*Read-only/s
      : /^\.\/a\.txt \.\/gone\.txt \.\/vendor ?$/;
  const words = `${at}:/work:${mode},hidden=.env,hidden=src,ro=vendor`;
  await squashOk(daemon, ['create', box, '--layers', '000-base-test', '--mount', words]);
  assert.match(await sh(box, `cd /work; ${list}`), seen);
  const shown = await squashOk(daemon, ['mount', box]);
  assert.ok(shown.includes(` ${mode},hidden=.env,hidden=src,ro=vendor `), shown);
  const file = join(host, `${box}.toml`);
  const fs = `[fs]\n"./.env" = "hidden"\n"./src" = "hidden"\n"./vendor" = "ro"\n"${host}/absent" = "deny"\n`;
  writeFileSync(
    file,
    `version = 1\nextends = ["builtin:node"]\nworkdir = { source = ".", mode = "${mode}" }\n${fs}`,
  );
  const run = ['run', '--policy', file, '--layers', '000-base-test', '--', 'sh', '-c', `cd ${at}; ${list}`];
  const { stdout, stderr } = await squash(daemon, run, { cwd: at });
  // Of limits that this machine does not hold.
  assert.match(`${stdout.toString()}${stderr.replaceAll(/^squash: warning: .*\n/gm, '')}`, seen);
  assert.equal(readFileSync(join(at, 'a.txt'), 'utf8'), 'one');
  const wrong = await squash(daemon, ['mount', box, `${at}:/work:cow,open=x`]);
  assert.match(wrong.stderr, /"open=x" is no LEVEL=NAME/);
});
