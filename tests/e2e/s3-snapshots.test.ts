/** Snapshots in a bucket: brought there, restored on another machine, and what a bucket that fails, lies or is shared can do. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { Squash } from '@squash/sdk';
import { isOnVms, written } from '../support/backend.ts';
import { TestBucket } from '../support/bucket.ts';
import { repository } from '../support/base-layer.ts';
import { endOf, squash, squashOk } from '../support/cli.ts';
import { removeDataDirectory } from '../support/data-directory.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

let directory: string;
let bucket: TestBucket;
before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'squash-s3-'));
  bucket = await TestBucket.start();
});
after(async () => {
  await bucket[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});
beforeEach(() => {
  bucket.fault = () => 'none';
  bucket.seen.length = 0;
});

const api = '/cgi-bin/api/sandboxes';
const machine = (env: Readonly<Record<string, string>> = {}): Promise<TestDaemon> =>
  TestDaemon.start({ env: { ...bucket.environment, ...env } });
const keyOf = (id: string, label: string): string => `sandboxes/${id}/snapshots/${label}.squashfs`;
const isOf = (url: string | undefined, label: string): boolean =>
  url?.split('?')[0]?.endsWith(`/${label}.squashfs`) === true;

async function create(daemon: TestDaemon, id: string, more: object = {}): Promise<void> {
  const made = await daemon.request('POST', api, { id, layers: '000-base-test', ...more });
  assert.equal(made.status, 201, made.text);
}

async function exec(daemon: TestDaemon, id: string, cmd: string): Promise<string> {
  const { json, status, text } = await daemon.request('POST', `${api}/${id}/exec`, { cmd });
  assert.equal(status, 200, text);
  assert.equal(json.exit_code, 0, json.stderr);
  return json.stdout;
}

async function take(daemon: TestDaemon, id: string, label: string): Promise<void> {
  const taken = await daemon.request('POST', `${api}/${id}/snapshot`, { label });
  assert.equal(taken.status, 200, taken.text);
}

const restore = (daemon: TestDaemon, id: string, label: string) =>
  daemon.request('POST', `${api}/${id}/restore`, { label });

async function isPushed(id: string, label: string): Promise<void> {
  await waitFor(
    `${id}/${label} is in the bucket`,
    () => bucket.look(`sandboxes/${id}/manifests/${label}.json`),
    60_000,
  );
}

async function manifestWith(id: string, label: string): Promise<Record<string, unknown>> {
  return await waitFor(`the manifest of ${id} names ${label}`, async () => {
    const text = (await bucket.read(`sandboxes/${id}/manifest.json`).catch(() => '{}')).toString();
    // The server shows an object while it is being written.
    const manifest = text.endsWith('}\n') ? (JSON.parse(text) as Record<string, unknown>) : {};
    return manifest['latest_snapshot'] === label ? manifest : undefined;
  });
}

async function problems(daemon: TestDaemon): Promise<readonly string[]> {
  const { json } = await daemon.request('GET', '/cgi-bin/health');
  return ((json.problems ?? []) as { code: string }[])
    .map(({ code }) => code)
    .filter((code) => /bucket/.test(code));
}

/** Nothing half-made is left. */
function nothingLeft(daemon: TestDaemon): void {
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
}

async function module(daemon: TestDaemon, name: string): Promise<void> {
  const root = join(directory, `${name}-${randomBytes(4).toString('hex')}`);
  mkdirSync(root);
  writeFileSync(join(root, 'module'), name);
  await squashOk(daemon, ['module', 'build', 'from-dir', root, name]);
  await waitFor(`${name} is in the bucket`, () => bucket.look(`modules/${name}.squashfs.manifest.json`));
}

test('a snapshot goes to the bucket, and another machine restores it with the modules it was taken on', async () => {
  await using one = await machine();
  await module(one, '600-below');
  await create(one, 'dev', { layers: '000-base-test,600-below' });
  await exec(one, 'dev', 'echo first > /first; echo gone > /gone');
  await take(one, 'dev', 'a');
  // One that lies on another one, under a label that differs in its case alone.
  assert.equal((await restore(one, 'dev', 'a')).status, 200);
  await exec(one, 'dev', 'echo second > /second; rm /gone');
  await take(one, 'dev', 'A');
  await isPushed('dev', 'a');
  await isPushed('dev', 'A');
  const manifest = await manifestWith('dev', 'A');
  assert.deepEqual(
    ['id', 'layers', 'latest_snapshot', 'memory_mb', 'allow_net'].map((name) => manifest[name]),
    ['dev', ['000-base-test', '600-below'], 'A', 1024, null],
  );

  await using two = await machine();
  await create(two, 'dev');
  const { items } = (await two.request('GET', '/v1/sandboxes/dev/snapshots')).json as {
    items: { label: string; location: string; whole: boolean }[];
  };
  assert.deepEqual(items.map(({ label, location, whole }) => `${label} ${location} ${whole}`).sort(), [
    'A remote false',
    'a remote true',
  ]);
  // What comes counts for its owner.
  await two.call('PUT', '/v1/owners/anon/quota', { disk_mb: 0 });
  assert.equal((await restore(two, 'dev', 'A')).json.code, 'quota_exceeded');
  await two.call('PUT', '/v1/owners/anon/quota', {});
  bucket.seen.length = 0;
  // One download, however many wait; and the module comes along.
  const answers = await Promise.all([restore(two, 'dev', 'A'), restore(two, 'dev', 'A')]);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200],
    answers[0].text,
  );
  const isChange = (path: string): boolean => isOf(path, 'A') && path.includes('/changes/');
  assert.equal(bucket.seen.filter(({ method, path }) => method === 'GET' && isChange(path)).length, 1);
  assert.equal(
    await exec(two, 'dev', 'cat /first /second /module; test ! -e /gone'),
    'first\nsecond\n600-below',
  );
  assert.equal((await restore(two, 'dev', 'a')).status, 200);
  assert.equal(await exec(two, 'dev', 'cat /gone; test ! -e /second'), 'gone\n');
  // A fork from one that only the bucket has.
  await create(two, 'other');
  await exec(two, 'other', 'echo forked > /forked');
  await take(two, 'other', 'f');
  await isPushed('other', 'f');
  await using three = await machine();
  await create(three, 'other');
  const fork = await three.request('POST', '/v1/sandboxes', {
    from: { sandbox: 'other', snapshot: 'f' },
  });
  assert.equal(fork.status, 201, fork.text);
  assert.equal(await exec(three, fork.json.id, 'cat /forked'), 'forked\n');
  nothingLeft(two);
  assert.deepEqual([...(await problems(one)), ...(await problems(two))], []);
});

test('one more snapshot sends its change, and another machine restores each with what it lies on', async () => {
  await using one = await machine();
  await create(one, 'chain');
  await exec(
    one,
    'chain',
    'dd if=/dev/urandom of=/big bs=1M count=8 2>&1; for i in $(seq 50); do echo 0 >/f$i; done',
  );
  const keys = (folder: string) => bucket.sizes(`sandboxes/chain/${folder}/`);
  for (const label of ['s0', 's1', 's2', 's3']) {
    await exec(one, 'chain', `echo ${label} >/f7; sleep 0.1`);
    await take(one, 'chain', label);
    await isPushed('chain', label);
  }
  const total = (sizes: ReadonlyMap<string, number>): number =>
    [...sizes.values()].reduce((a, b) => a + b, 0);
  const changes = await keys('changes');
  // Each of a microVM is whole, and lies on none.
  const whole = isOnVms ? ['s0', 's1', 's2', 's3'] : ['s0'];
  assert.deepEqual([...changes.keys()].sort(), isOnVms ? [] : ['s1.squashfs', 's2.squashfs', 's3.squashfs']);
  assert.ok(total(changes) < 60_000, String(total(changes)));
  // The whole one, and each change that another lies on, once.
  const pieces = [...(await keys('pieces')).keys()];
  assert.equal(pieces.length, isOnVms ? 0 : 3);
  assert.deepEqual(
    [...(await keys('snapshots')).keys()].sort(),
    whole.map((label) => `${label}.squashfs`),
  );
  // What goes here goes there from no other: also when its label is another's.
  for (const label of ['s0', 's1', 's2'])
    await one.request('DELETE', `/v1/sandboxes/chain/snapshots/${label}`);
  await exec(one, 'chain', 'rm /big; echo new >/f7');
  await take(one, 'chain', 's0');
  await manifestWith('chain', 's0');

  await using two = await machine();
  await create(two, 'chain');
  for (const [label, bytes] of [
    ['s2', '8388608'],
    ['s3', '8388608'],
    ['s0', 'none'],
  ] as const) {
    const restored = await restore(two, 'chain', label);
    assert.equal(restored.status, 200, restored.text);
    const seen = await exec(
      two,
      'chain',
      'cat /f7; stat -c %s /big 2>/dev/null || echo none; ls /f* | wc -l',
    );
    assert.equal(seen, `${label === 's0' ? 'new' : label}\n${bytes}\n50\n`);
  }
  const { items } = (await two.request('GET', '/v1/sandboxes/chain/snapshots')).json as {
    items: { label: string; location: string }[];
  };
  assert.deepEqual(items.map(({ label, location }) => `${label} ${location}`).sort(), [
    's0 local',
    's1 remote',
    's2 local',
    's3 local',
  ]);
  nothingLeft(two);
  if (isOnVms) return;
  // A piece that is not there any more: the snapshots that lie on it are refused, and nothing of them stays. Those of the newest are its own.
  const now = await keys('pieces');
  const piece = pieces.find((name) => now.has(name));
  await one.request(
    'DELETE',
    `/v1/bucket/objects?key=${encodeURIComponent(`sandboxes/chain/pieces/${piece}`)}`,
  );
  await using three = await machine();
  await create(three, 'chain');
  const results = [];
  for (const label of ['s1', 's2', 's3'])
    results.push((await restore(three, 'chain', label)).json.code ?? 'fine');
  assert.ok(results.includes('layer_corrupt'), results.join());
  nothingLeft(three);
  assert.deepEqual(await problems(one), []);
});

test('what is of another owner or another machine is neither taken nor overwritten', async () => {
  await using one = await machine();
  await create(one, 'shared', { owner: 'ann' });
  await exec(one, 'shared', 'echo ann > /who');
  await take(one, 'shared', 's');
  await isPushed('shared', 's');
  await using two = await machine();
  await create(two, 'shared', { owner: 'bob' });
  assert.deepEqual((await two.request('GET', '/v1/sandboxes/shared/snapshots')).json.items, []);
  assert.equal((await restore(two, 'shared', 's')).status, 400);
  await take(two, 'shared', 't');
  await waitFor('it is told', async () => (await problems(two)).includes('bucket_conflict'));
  assert.equal(await bucket.look(keyOf('shared', 't')), undefined);
  // The same owner, and another machine's label.
  await using three = await machine();
  await create(three, 'shared', { owner: 'ann' });
  await take(three, 'shared', 's');
  await waitFor('it is told', async () => (await problems(three)).includes('bucket_conflict'));
  const before = await bucket.look(keyOf('shared', 's'));
  // Whoever wrote it may take another one under its label.
  assert.equal((await one.request('DELETE', `${api}/shared`)).status, 204);
  await create(one, 'shared', { owner: 'ann' });
  await exec(one, 'shared', 'echo anew > /who');
  await take(one, 'shared', 's');
  await waitFor(
    'it is there',
    async () => (await bucket.look(keyOf('shared', 's')))?.sha256 !== before?.sha256,
  );
  assert.deepEqual(await problems(one), []);
});

test('a snapshot that could not be pushed is found again by the next daemon, and a module that recovery misses is pulled', async () => {
  await using daemon = await machine();
  await module(daemon, '610-missed');
  await create(daemon, 'late', { layers: '000-base-test,610-missed' });
  await exec(daemon, 'late', `echo late > /late${written}`);
  bucket.fault = () => 'refuse';
  await take(daemon, 'late', 'l');
  await waitFor('it is told', async () => (await problems(daemon)).includes('bucket_unavailable'));
  assert.equal(await exec(daemon, 'late', 'cat /late'), 'late\n');
  await daemon.cutPower();
  for (const name of readdirSync(join(daemon.dataDir, 'modules')).filter((each) => each.startsWith('610-')))
    rmSync(join(daemon.dataDir, 'modules', name));
  for (const tree of readdirSync(join(daemon.dataDir, 'layers'))) {
    if (tree.length === 64) await removeDataDirectory(join(daemon.dataDir, 'layers', tree));
  }
  bucket.fault = () => 'none';
  await daemon.start();
  assert.equal(await exec(daemon, 'late', 'cat /late /module'), 'late\n610-missed');
  await isPushed('late', 'l');
  await waitFor('it is over', async () => (await problems(daemon)).length === 0);
});

test('a snapshot whose download breaks is got whole or refused', async () => {
  await using one = await machine();
  await create(one, 'cut');
  await exec(one, 'cut', 'head -c 600000 /dev/urandom > /data; echo cut > /who');
  await take(one, 'cut', 'c');
  await isPushed('cut', 'c');
  await using two = await machine();
  await create(two, 'cut');
  let times = 2;
  bucket.fault = ({ url, method }) => (method === 'GET' && isOf(url, 'c') && times-- > 0 ? 'wrong' : 'none');
  const refused = await restore(two, 'cut', 'c');
  assert.match(refused.text, /snapshot .*c.* should be/);
  nothingLeft(two);
  assert.deepEqual(
    readdirSync(join(two.dataDir, 'sandboxes/cut')).filter((name) => name === 'snapshots'),
    [],
  );
  bucket.fault = ({ url, method }) => (method === 'GET' && isOf(url, 'c') ? 'refuse' : 'none');
  assert.equal((await restore(two, 'cut', 'c')).status, 503);
  // A bucket that says nothing holds up whoever lists what is here once, and for a moment.
  await waitFor('it is over', async () => (await problems(two)).length === 0);
  bucket.fault = ({ url }) => (/list-type/.test(url ?? '') ? 'stall' : 'none');
  for (const msMax of [10_000, 1_000]) {
    const began = performance.now();
    assert.deepEqual((await two.request('GET', '/v1/sandboxes/cut/snapshots')).json.items, []);
    assert.ok(performance.now() - began < msMax);
  }
  // Killed in the middle: nothing of it is there, and the next one gets it whole.
  const stalled = Promise.withResolvers<void>();
  bucket.fault = ({ url, method }) => {
    if (method !== 'GET' || !isOf(url, 'c')) return 'none';
    stalled.resolve();
    return 'stall';
  };
  const lost = restore(two, 'cut', 'c').catch(() => undefined);
  await stalled.promise;
  // What is here is not held up by it.
  assert.equal(await exec(two, 'cut', 'echo here'), 'here\n');
  await two.kill();
  await lost;
  await two.start();
  nothingLeft(two);
  bucket.fault = ({ url, method }) => (method === 'GET' && isOf(url, 'c') ? 'cut' : 'none');
  assert.equal((await restore(two, 'cut', 'c')).status, 200);
  assert.equal(await exec(two, 'cut', 'cat /who; stat -c %s /data'), 'cut\n600000\n');
});

test('a bucket of the original is read, in both of its layouts', async () => {
  await using one = await machine({ SQUASH_S3_BUCKET: '' });
  await create(one, 'old');
  await exec(one, 'old', 'echo old > /old');
  await take(one, 'old', 'x');
  const file = readFileSync(join(one.dataDir, 'sandboxes/old/snapshots/x.squashfs'));
  await bucket.put(keyOf('old', 'x'), file);
  await bucket.put(keyOf('old', '..'), file);
  await bucket.put(keyOf('old', 'no label'), file);
  await bucket.put(
    'sandboxes/old/manifest.json',
    Buffer.from('{"id":"old","layers":["000-base-test"],"owner":"anon","latest_snapshot":"x"}'),
  );
  await bucket.put('snapshots/old/y.squashfs', file);
  await bucket.put('snapshots/old/z.squashfs', Buffer.from('no squashfs'));
  await using two = await machine();
  await create(two, 'old');
  const { items } = (await two.request('GET', '/v1/sandboxes/old/snapshots')).json as {
    items: { label: string }[];
  };
  assert.deepEqual(items.map(({ label }) => label).sort(), ['x', 'y', 'z']);
  for (const label of ['x', 'y']) {
    assert.equal((await restore(two, 'old', label)).status, 200);
    assert.equal(await exec(two, 'old', 'cat /old'), 'old\n');
  }
  assert.ok((await restore(two, 'old', 'z')).status >= 400);
  nothingLeft(two);
});

test('commands show the bucket, bring things there and back, and remove them', async () => {
  await using one = await machine();
  await module(one, '640-made');
  await create(one, 'words');
  await exec(one, 'words', 'echo words > /words');
  await take(one, 'words', 'w');
  assert.match(
    await squashOk(one, ['s3', 'push', '640-made', 'words/w']),
    /pushed 640-made\npushed words\/w/,
  );
  assert.match(await squashOk(one, ['s3', 'status']), /squash[\s\S]*to push +0/);
  const keys = await squashOk(one, ['s3', 'ls', 'sandboxes/words/', '--quiet']);
  assert.deepEqual(keys.trim().split('\n'), [
    'sandboxes/words/manifest.json',
    'sandboxes/words/manifests/w.json',
    'sandboxes/words/snapshots/w.squashfs',
  ]);
  await using two = await machine();
  await create(two, 'words');
  const old = async (program: string, ...words: string[]) => await oldProgram(two, program, words);
  assert.match((await old('sq-ctl', 'pull', 'snapshots', 'words')).stdout, /pulled words\/w/);
  assert.equal((await restore(two, 'words', 'w')).status, 200);
  assert.equal((await old('sq-s3', 'exists', 'modules/640-made.squashfs')).code, 0);
  assert.equal((await old('sq-s3', 'exists', 'modules/640-none.squashfs')).code, 1);
  const pulled = join(directory, 'pulled.squashfs');
  assert.equal((await old('sq-s3', 'pull', 'modules/640-made.squashfs', pulled)).code, 0);
  assert.ok(readFileSync(pulled).equals(await bucket.read('modules/640-made.squashfs')));
  assert.equal((await old('sq-s3', 'push', pulled, 'modules/641-pushed.squashfs')).code, 0);
  assert.ok(await bucket.look('modules/641-pushed.squashfs'));
  const snapshot = join(directory, 'snapshot.squashfs');
  assert.equal((await old('sq-s3', 'pull', 'sandboxes/words/snapshots/w.squashfs', snapshot)).code, 0);
  assert.equal((await old('sq-s3', 'push', snapshot, 'sandboxes/words/snapshots/v.squashfs')).code, 0);
  assert.ok(await bucket.look(keyOf('words', 'v')));
  assert.match(
    (await old('sq-s3', 'list', 'sandboxes/words/snapshots/')).stdout,
    /v\.squashfs\n.*w\.squashfs/,
  );
  assert.match(await squashOk(one, ['s3', 'sync', 'words']), /pulled words\/v/);
  // The same for programs.
  await new Squash({ url: two.url, token: '' }).bucket.pull({ module: '641-pushed' });
  const python = `from squash import Squash
with Squash(url="${two.url}", token="") as squash:
    squash.bucket.push({"sandbox": "words", "snapshot": "w"})
    squash.bucket.remove("${keyOf('words', 'v')}")
    print(squash.bucket.get().name, [each.key for each in squash.bucket.list("modules/64").items])`;
  const ran = spawn('python3', ['-c', python], { env: { PYTHONPATH: join(repository, 'python') } });
  const said = await endOf(ran);
  assert.match(said.stdout.toString(), /^squash \['modules\/640-made/, String(said.stderr));
  assert.equal((await old('sq-s3', 'rm', keyOf('words', 'v'))).code, 0);
  await squashOk(one, ['s3', 'rm', 'sandboxes/words/']);
  assert.deepEqual(JSON.parse(await squashOk(one, ['s3', 'ls', 'sandboxes/words/', '--json'])), {
    items: [],
    complete: true,
  });
  await using none = await machine({ SQUASH_S3_BUCKET: '' });
  assert.match((await squash(none, ['s3', 'status'])).stderr.toString(), /SQUASH_S3_BUCKET names none/);
});

async function oldProgram(daemon: TestDaemon, name: string, words: readonly string[]) {
  const env = { PATH: process.env['PATH'], HOME: directory, SQUASH_DATA: daemon.dataDir };
  const child = spawn(join(repository, 'packaging/bin', name), words, { env });
  const { code, stdout } = await endOf(child);
  return { code, stdout: stdout.toString() };
}
