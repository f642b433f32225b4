/** Modules in a bucket: brought there, brought back, and what a bucket that fails or lies can do. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { TestBucket } from '../support/bucket.ts';
import { squash, squashOk } from '../support/cli.ts';
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

const daemonOf = (): Promise<TestDaemon> => TestDaemon.start({ env: bucket.environment });
const sha256 = (data: Buffer): string => createHash('sha256').update(data).digest('hex');
const keyOf = (name: string): string => `modules/${name}.squashfs`;

const isOf = (url: string, name: string): boolean =>
  url.split('?')[0]?.endsWith(`/${name}.squashfs`) === true;

/** A directory whose module is a little larger than this: what is in it can't be compressed. */
function tree(name: string, bytes: number): string {
  const root = join(directory, `${name}-${randomBytes(4).toString('hex')}`);
  mkdirSync(root);
  writeFileSync(join(root, 'data'), randomBytes(bytes));
  writeFileSync(join(root, 'name'), name);
  return root;
}

async function build(
  daemon: TestDaemon,
  name: string,
  { bytes = 1_000_000, isReplaced = false } = {},
): Promise<Buffer> {
  const more = isReplaced ? ['--replace'] : [];
  await squashOk(daemon, ['module', 'build', 'from-dir', tree(name, bytes), name, ...more]);
  return readFileSync(join(daemon.dataDir, 'modules', `${name}.squashfs`));
}

async function isPushed(name: string, data: Buffer): Promise<void> {
  await waitFor(
    `${name} is in the bucket`,
    async () => (await bucket.look(keyOf(name)))?.sha256 === sha256(data),
    120_000,
  );
}

async function problems(daemon: TestDaemon): Promise<readonly string[]> {
  const { json } = await daemon.request('GET', '/cgi-bin/health');
  return ((json.problems ?? []) as { code: string }[])
    .map(({ code }) => code)
    .filter((code) => /bucket/.test(code));
}

const create = (daemon: TestDaemon, id: string, layer: string) =>
  daemon.request('POST', '/cgi-bin/api/sandboxes', { id, layers: `000-base-test,${layer}` });

async function nameIn(daemon: TestDaemon, id: string): Promise<string> {
  const { json } = await daemon.request('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd: 'cat /name' });
  return json.stdout;
}

/** Nothing half-made is left, in the data directory or beside it. */
function nothingLeft(daemon: TestDaemon): void {
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
}

test('a module goes to the bucket when it is built, and another machine has it when a sandbox needs it', async () => {
  await using one = await daemonOf();
  // Of several parts.
  const data = await build(one, '300-shared', { bytes: 13_000_000 });
  await isPushed('300-shared', data);
  assert.equal((await bucket.look(keyOf('300-shared')))?.size, data.length);
  assert.ok(bucket.seen.some(({ path }) => /partNumber=3/.test(path)));

  await using two = await daemonOf();
  const list = (await two.request('GET', '/cgi-bin/api/modules')).json as { name: string }[];
  assert.deepEqual(
    list.find(({ name }) => name === '300-shared'),
    { name: '300-shared', size: data.length, location: 'remote' },
  );
  bucket.seen.length = 0;
  // One download, however many wait.
  const answers = await Promise.all(['a', 'b', 'c'].map((id) => create(two, id, '300-shared')));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [201, 201, 201],
  );
  const gets = bucket.seen.filter(({ method, path }) => method === 'GET' && isOf(path, '300-shared'));
  assert.equal(gets.length, 1);
  assert.equal(await nameIn(two, 'a'), '300-shared');
  assert.ok(readFileSync(join(two.dataDir, 'modules/300-shared.squashfs')).equals(data));
  // Its manifest came along.
  assert.match(await squashOk(two, ['module', 'inspect', '300-shared', '--json']), /"builder":\s*"squash \d/);
  nothingLeft(two);
  // And to one that runs.
  await isPushed('310-later', await build(one, '310-later'));
  const activated = await two.request('POST', '/cgi-bin/api/sandboxes/a/activate', { module: '310-later' });
  assert.equal(activated.status, 200, activated.text);
  assert.equal(await nameIn(two, 'a'), '310-later');
  assert.deepEqual(await problems(two), []);
});

test('a bucket that is away fails nothing that is here, is told, and gets what it missed when it is back', async () => {
  bucket.fault = () => 'refuse';
  await using daemon = await daemonOf();
  const data = await build(daemon, '320-missed');
  assert.equal((await create(daemon, 'dev', '320-missed')).status, 201);
  assert.equal(await nameIn(daemon, 'dev'), '320-missed');
  assert.equal((await daemon.request('GET', '/cgi-bin/api/modules')).status, 200);
  await waitFor('it is told', async () => (await problems(daemon)).includes('bucket_unavailable'));
  const missing = await create(daemon, 'other', '399-nowhere');
  assert.equal(missing.status, 503, missing.text);
  assert.equal(await bucket.look(keyOf('320-missed')), undefined);
  // What waits is found again by the next daemon.
  await daemon.kill();
  bucket.fault = () => 'none';
  await daemon.start();
  await isPushed('320-missed', data);
  await waitFor('it is over', async () => (await problems(daemon)).length === 0);
  assert.equal((await create(daemon, 'other', '399-nowhere')).status, 400);
});

test('a remote that is full holds up one module and none of the others', async () => {
  await using daemon = await daemonOf();
  bucket.fault = ({ url = '', method }) => (method !== 'GET' && /330-large/.test(url) ? 'full' : 'none');
  const large = await build(daemon, '330-large', { bytes: 7_000_000 });
  await isPushed('331-small', await build(daemon, '331-small'));
  await waitFor('it is told', async () => (await problems(daemon)).includes('bucket_unavailable'));
  assert.equal(await bucket.look(keyOf('330-large')), undefined);
  bucket.fault = () => 'none';
  await isPushed('330-large', large);
});

test('a download goes on where its connection broke, and is refused where it is not what the bucket states', async () => {
  await using one = await daemonOf();
  const data = await build(one, '340-cut', { bytes: 400_000 });
  await isPushed('340-cut', data);
  await using two = await daemonOf();
  const manifest = `${keyOf('340-cut')}.manifest.json`;
  await waitFor('its manifest is there, too', () => bucket.look(manifest));
  // Its manifest is cut twice, and each piece of the file.
  let manifests = 2;
  bucket.fault = ({ url = '' }) => {
    if (url.includes('340-cut.squashfs.manifest')) return manifests-- > 0 ? 'half' : 'none';
    return isOf(url, '340-cut') ? 'cut' : 'none';
  };
  const cut = await create(two, 'cut', '340-cut');
  assert.equal(cut.status, 201, cut.text);
  assert.ok(bucket.seen.filter(({ range }) => range !== undefined).length >= 2);
  assert.ok(readFileSync(join(two.dataDir, 'modules/340-cut.squashfs')).equals(data));
  assert.ok(manifests < 0, 'it was asked for a third time');

  const wrong = await build(one, '341-wrong');
  await isPushed('341-wrong', wrong);
  let times = 2;
  bucket.fault = ({ url = '', method }) =>
    method === 'GET' && isOf(url, '341-wrong') && times-- > 0 ? 'wrong' : 'none';
  const refused = await create(two, 'wrong', '341-wrong');
  assert.match(refused.text, /341-wrong.*should be/);
  assert.ok(!readdirSync(join(two.dataDir, 'modules')).some((name) => name.startsWith('341-')));
  nothingLeft(two);
  // The third time it is right: once turned on the way is no fault of the bucket.
  times = 1;
  assert.equal((await create(two, 'wrong', '341-wrong')).status, 201);

  // Cut short each time: it ends, and leaves nothing.
  await isPushed('342-dead', await build(one, '342-dead'));
  bucket.fault = ({ url = '' }) => (isOf(url, '342-dead') ? 'refuse' : 'none');
  assert.equal((await create(two, 'dead', '342-dead')).status, 503);
  nothingLeft(two);
});

test('a bucket of the original is read; what is no module in it is passed over or refused', async () => {
  await using maker = await TestDaemon.start();
  const good = await build(maker, '350-original');
  await bucket.put(keyOf('350-original'), good);
  await bucket.put('modules/350-original.cfs', Buffer.from('x'));
  await bucket.put('cfs/objects/00/abc', Buffer.from('x'));
  await bucket.put('modules/..squashfs', good);
  await bucket.put(keyOf('no number'), good);
  await bucket.put(keyOf('351-broken'), randomBytes(100_000));
  await bucket.put(keyOf('352-lied'), good, 'f'.repeat(64));
  await bucket.put(keyOf('353-evil'), good);
  await bucket.put(`${keyOf('353-evil')}.manifest.json`, Buffer.from('{"schema":1'));
  await using daemon = await daemonOf();
  const list = (await daemon.request('GET', '/cgi-bin/api/modules')).json as {
    name: string;
    location: string;
  }[];
  const remote = list.filter(({ name }) => /35\d|cfs|\.\.|no number/.test(name)).map(({ name }) => name);
  assert.deepEqual(remote, ['350-original', '351-broken', '352-lied', '353-evil']);
  assert.equal((await create(daemon, 'good', '350-original')).status, 201);
  for (const [name, why] of [
    ['351-broken', /351-broken/],
    ['352-lied', /should be f{64}/],
    ['353-evil', /manifest is malformed/],
  ] as const) {
    const refused = await create(daemon, 'bad', name);
    assert.ok(refused.status >= 400, name);
    assert.match(refused.text, why);
  }
  nothingLeft(daemon);
});

test('a list of more than a thousand keys is read to its end', async () => {
  const small = Buffer.from('x');
  for (let at = 0; at < 1_050; at += 50)
    await Promise.all(
      Array.from({ length: 50 }, (_, each) => bucket.put(keyOf(`500-many-${1_000 + at + each}`), small)),
    );
  await using daemon = await daemonOf();
  const list = (await daemon.request('GET', '/cgi-bin/api/modules')).json as { name: string }[];
  assert.equal(list.filter(({ name }) => name.startsWith('500-many-')).length, 1_050);
});

test('a module of the same name and other content is neither taken nor overwritten, unless it is replaced', async () => {
  await using one = await daemonOf();
  const first = await build(one, '360-same');
  await isPushed('360-same', first);
  bucket.fault = () => 'refuse';
  await using two = await daemonOf();
  await build(two, '360-same');
  bucket.fault = () => 'none';
  await waitFor('it is told', async () => (await problems(two)).includes('bucket_conflict'), 60_000);
  assert.equal((await bucket.look(keyOf('360-same')))?.sha256, sha256(first));
  const replaced = await build(two, '360-same', { isReplaced: true });
  await isPushed('360-same', replaced);
  await waitFor('it is over', async () => (await problems(two)).length === 0);
  assert.doesNotMatch((await squash(two, ['doctor'])).stdout.toString(), /bucket_/);
});

test('an answer without end is given up, whatever it was for', async () => {
  await using daemon = await daemonOf();
  await waitFor(
    'the bucket is compared',
    async () => (await bucket.look(keyOf('000-base-test'))) !== undefined,
  );
  const before = peakMb(daemon);
  bucket.fault = () => 'endless';
  const list = await daemon.request('GET', '/v1/bucket/objects');
  assert.equal(list.status, 503);
  assert.match(list.text, /longer than 6291456 bytes/);
  const missing = await create(daemon, 'missing', '398-nowhere');
  assert.match(missing.text, /longer than 65536 bytes/);
  const grownMb = peakMb(daemon) - before;
  assert.ok(grownMb < 100, `${grownMb} MB`);
});

test('a large module goes there and back in little memory', async () => {
  await using one = await daemonOf();
  await isPushed('370-first', await build(one, '370-first', { bytes: 7_000_000 }));
  const before = peakMb(one);
  const large = await build(one, '371-large', { bytes: 200_000_000 });
  // It is on its way already, and not sent twice.
  assert.equal((await squash(one, ['s3', 'push', '371-large'])).code, 0);
  await isPushed('371-large', large);
  const uploads = bucket.seen.filter(({ path }) => path.includes('371-large') && path.includes('uploads'));
  assert.equal(uploads.length, 1);
  await using two = await daemonOf();
  // Three: the second of a microVM's kind leaves a template behind, which passes through the daemon, and the third goes on from it.
  for (const id of ['first', 'second', 'third'])
    assert.equal((await create(two, id, '370-first')).status, 201);
  const beforePull = peakMb(two);
  assert.equal((await create(two, 'large', '371-large')).status, 201);
  const grown = { pushMb: peakMb(one) - before, pullMb: peakMb(two) - beforePull };
  assert.ok(grown.pushMb < 80 && grown.pullMb < 80, JSON.stringify(grown));
});

/** Most memory that the daemon has ever held. */
function peakMb(daemon: TestDaemon): number {
  const status = readFileSync(`/proc/${daemon.pid}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1_024;
}
