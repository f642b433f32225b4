/** Snapshots as things of their own: what is refused before it costs anything, and what a removal cuts short. */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type DiffPage, diffPageSchema, type SnapshotDetails } from '@squash/contract/native-snapshot';
import type { Warning } from '@squash/contract/sandbox';
import { ApiClient } from '../support/api-client.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { removeDataDirectory } from '../support/data-directory.ts';
import { cgroupsOf, processesOf, signalAll } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const boxes = '/cgi-bin/api/sandboxes';
const box = `${boxes}/box`;
const snapshots = '/v1/sandboxes/box/snapshots';

function fileOf(daemon: TestDaemon, label: string): string {
  return join(daemon.dataDir, `sandboxes/box/snapshots/${label}.squashfs`);
}

async function box1(daemon: TestDaemon): Promise<ApiClient> {
  const api = new ApiClient(daemon);
  const created = await api.post(boxes, { id: 'box', layers: '000-base-test' });
  assert.equal(created.status, 201, created.text);
  return api;
}

async function sh(api: ApiClient, cmd: string): Promise<string> {
  const { json } = await api.post(`${box}/exec`, { cmd });
  assert.equal(json.exit_code, 0, `${cmd}: ${json.stderr}`);
  return json.stdout;
}

const type = { 'content-type': 'application/octet-stream' };

/** The bytes of a download; `ApiClient` reads text. */
async function download(daemon: TestDaemon, label: string): Promise<Buffer> {
  const response = await fetch(`${daemon.url}${snapshots}/${label}/file`);
  assert.equal(response.status, 200);
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.equal(Number(response.headers.get('content-length')), bytes.length);
  return bytes;
}

const look = 'cd /; ls -1A kept back home etc 2>&1; cat kept/* back/* home/* 2>&1; true';

/** Two snapshots, the second taken on the first, which is restored when this returns. What each looks like. */
async function chain(api: ApiClient): Promise<{ readonly first: string; readonly second: string }> {
  await sh(
    api,
    'mkdir /kept /gone /back; for d in kept gone back; do echo 1 >/$d/old; done; rm /etc/os-release',
  );
  const first = await sh(api, look);
  assert.equal((await api.post(`${box}/snapshot`, { label: 'first' })).status, 200);
  assert.equal((await api.post(`${box}/restore`, { label: 'first' })).status, 200);
  await sh(
    api,
    'rm -r /gone /back /home; mkdir /back /home; echo 2 >/back/new; echo 2 >/home/new; echo 2 >/kept/new',
  );
  const second = await sh(api, look);
  assert.equal((await api.post(`${box}/snapshot`, { label: 'second' })).status, 200);
  return { first, second };
}

test('a snapshot is downloaded whole whatever it lies on, and is the same where it is uploaded', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  const { first, second } = await chain(api);
  const { json } = await api.get(snapshots);
  assert.deepEqual(
    json.items.map((each: SnapshotDetails) => [each.label, each.whole, each.base, each.active]),
    [
      ['first', true, null, true],
      ['second', false, 'first', false],
    ],
  );
  const whole = await download(daemon, 'second');
  assert.deepEqual(await download(daemon, 'first'), readFileSync(fileOf(daemon, 'first')));
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
  await api.post(boxes, { id: 'other', layers: '000-base-test' });
  const other = `/v1/sandboxes/other/snapshots/moved`;
  const stored = await api.send('PUT', `${other}/file`, { headers: type, text: whole });
  assert.deepEqual(
    [stored.status, stored.json.whole, stored.json.size_bytes],
    [200, true, whole.length],
    stored.text,
  );
  assert.equal(
    (await api.send('PUT', `${other}/file`, { headers: type, text: whole })).json.code,
    'snapshot_exists',
  );
  assert.equal((await api.get(other)).json.label, 'moved');
  assert.equal((await api.post(`${boxes}/other/restore`, { label: 'moved' })).status, 200);
  assert.equal((await api.post(`${boxes}/other/exec`, { cmd: `${look}; ls /gone` })).json.stdout, second);
  assert.equal((await api.post(`${box}/restore`, { label: 'first' })).status, 200);
  assert.equal(await sh(api, look), first);
  const head = await api.send('HEAD', `${snapshots}/second/file`);
  assert.equal(head.headers['content-length'], `${whole.length}`);
});

test('/v1 takes a snapshot with labels, finds it by them, gives it others, and goes back to it under its new name', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  await sh(api, 'echo 1 >/file');
  const taken = await api.post(snapshots, { label: 'first', labels: { step: 'one', keep: '' } });
  assert.equal(taken.status, 201, taken.text);
  assert.deepEqual([taken.json.label, taken.json.labels], ['first', { step: 'one', keep: '' }]);
  assert.ok(taken.json.size_bytes > 0 && taken.json.pause_ms > 0, taken.text);
  assert.match((await api.post(snapshots)).json.label, /^\d{8}-\d{6}$/);
  for (const [body, code] of [
    [{ label: 'first' }, 'snapshot_exists'],
    [{ label: '.x' }, 'invalid_request'],
    [{ name: 'x' }, 'invalid_request'],
    [{ labels: { 'a b': '' } }, 'invalid_request'],
    [{ labels: { 'squash.automatic': 'yes' } }, 'invalid_request'],
  ] as const)
    assert.equal((await api.post(snapshots, body)).json.code, code, JSON.stringify(body));
  assert.match(
    (await api.post(snapshots, { label: 'a/b' })).json.detail,
    /^a snapshot’s label has letters, digits/,
  );
  const restored = await api.post('/v1/sandboxes/box/restore', { snapshot: 'first' });
  assert.deepEqual([restored.status, restored.json.snapshot], [200, 'first'], restored.text);
  await sh(api, 'echo 2 >/file');
  assert.equal((await api.post(snapshots, { label: 'last' })).json.base, 'first');
  const labelsOf = async (query: string): Promise<string[]> =>
    (await api.get(`${snapshots}?${query}`)).json.items.map((each: SnapshotDetails) => each.label);
  const page = (await api.get(`${snapshots}?limit=2`)).json;
  assert.equal(page.items[0].label, 'first');
  assert.deepEqual(await labelsOf(`limit=2&cursor=${page.next}`), ['last']);
  assert.deepEqual(await labelsOf('label=step%3Done,keep'), ['first']);
  assert.deepEqual(await labelsOf('label=step%3Dtwo'), []);
  const change = { label: 'renamed', labels: { keep: null, step: 'two' } };
  const changed = await api.send('PATCH', `${snapshots}/first`, { body: change });
  assert.deepEqual([changed.status, changed.json.label], [200, 'renamed'], changed.text);
  assert.deepEqual([changed.json.labels, changed.json.active], [{ step: 'two' }, true]);
  assert.equal((await api.get(`${snapshots}/last`)).json.base, 'renamed');
  assert.equal((await api.get(`${snapshots}/first`)).json.code, 'snapshot_not_found');
  const taken2 = await api.send('PATCH', `${snapshots}/last`, { body: { label: 'renamed' } });
  assert.equal(taken2.json.code, 'snapshot_exists');
  await daemon.kill();
  await daemon.start();
  assert.deepEqual((await api.get(`${snapshots}/renamed`)).json.labels, { step: 'two' });
  assert.equal((await api.post('/v1/sandboxes/box/restore', { snapshot: 'last' })).status, 200);
  assert.equal(await sh(api, 'cat /file'), '2\n');
  assert.equal((await api.post('/v1/sandboxes/box/restore', { snapshot: 'renamed' })).status, 200);
  assert.equal(await sh(api, 'cat /file'), '1\n');
  const unknown = await api.post('/v1/sandboxes/box/restore', { snapshot: 'none' });
  assert.equal(unknown.json.code, 'snapshot_not_found');
});

test('/v1 tells what was added, changed and removed since a snapshot, up to it, and between two', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  await chain(api);
  const diff = async (label: string, query: string): Promise<DiffPage> => {
    const { json, text, status } = await api.get(`${snapshots}/${label}/diff?${query}`);
    assert.equal(status, 200, text);
    return diffPageSchema.parse(json);
  };
  const told = ({ items }: DiffPage): string[] => items.map(({ change, path }) => `${change[0]} ${path}`);
  // What a start makes where the base has none.
  const own = new Set(['a /etc/hosts', 'a /etc/resolv.conf', 'c /tmp']);
  const base = await diff('first', '');
  assert.deepEqual([base.from, base.to, base.next], ['base', 'first', null]);
  const made = [
    'a /back',
    'a /back/old',
    'r /etc/os-release',
    'a /gone',
    'a /gone/old',
    'a /kept',
    'a /kept/old',
  ];
  assert.deepEqual(
    told(base).filter((each) => !own.has(each)),
    made,
  );
  const file = { change: 'added', path: '/back/old', type: 'file', mode: '0644', size_bytes: 2 };
  assert.deepEqual(base.items[1], file);
  const later = ['a /back/new', 'r /back/old', 'r /gone', 'a /home/new', 'a /kept/new'];
  assert.deepEqual(told(await diff('second', 'against=first')), later);
  // The other way round: what was added is removed.
  const back = told(await diff('first', 'against=second'));
  assert.ok(back.includes('r /back/new') && back.includes('a /gone/old'), back.join());
  assert.deepEqual(told(await diff('first', 'against=first')), []);
  await api.post(`${box}/restore`, { label: 'second' });
  assert.deepEqual(told(await diff('second', 'against=current')), []);
  // Other bytes of the same length in the same second, a mode, a file that was only touched, a link, odd names.
  await sh(api, 'echo 3 >/kept/old; chmod 600 /kept/new; touch -d @1 /back/new; ln -s /etc/passwd /link');
  await sh(api, 'echo >"/odd\nname"; mkfifo /fifo; rm /home/new; mkdir /home/new; echo >/home/new/in');
  const since = await diff('second', 'against=current');
  assert.deepEqual([since.from, since.to], ['second', 'current']);
  const now = [
    'a /fifo',
    'c /home/new',
    'a /home/new/in',
    'c /kept/new',
    'c /kept/old',
    'a /link',
    'a /odd\nname',
  ];
  assert.deepEqual(told(since), now);
  assert.deepEqual(
    since.items.map(({ type }) => type).filter((type) => type !== 'file'),
    ['fifo', 'directory', 'symlink'],
  );
  const one: string[] = [];
  for (let next: string | null = ''; next !== null; ) {
    const cursor = next === '' ? '' : `&cursor=${next}`;
    const page: DiffPage = await diff('second', `against=current&limit=1${cursor}`);
    assert.ok(page.items.length <= 1);
    one.push(...told(page));
    next = page.next;
  }
  assert.deepEqual(one, now);
  for (const query of ['against=none', 'against=../x', 'limit=0', 'cursor=', 'cursor=AA']) {
    const { code } = (await api.get(`${snapshots}/second/diff?${query}`)).json;
    assert.equal(code, query === 'against=none' ? 'snapshot_not_found' : 'invalid_request', query);
  }
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
});

test('a diff follows no link and ends, whatever the sandbox does to its files meanwhile', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  await api.post(snapshots, { label: 'clean' });
  const swap = [
    'mkdir /root/d; echo >/root/d/mine; ln -s ../etc /root/l',
    'while :; do mv -T /root/d /root/x; mv -T /root/l /root/d; mv -T /root/d /root/l; mv -T /root/x /root/d; done',
  ];
  await api.post(`${box}/exec-bg`, { cmd: swap.join('; ') });
  for (let round = 0; round < 20; round += 1) {
    const { json, status, text } = await api.get(`${snapshots}/clean/diff?against=current&limit=10000`);
    assert.equal(status, 200, text);
    const through = json.items.filter(({ path }: { path: string }) => /^\/root\/[dlx]\/(?!mine$)/.test(path));
    assert.deepEqual(through, []);
  }
  assert.equal((await api.get('/cgi-bin/health')).status, 200);
});

test('a removed snapshot breaks neither another nor the sandbox that lies on it, also when the layers are lost', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  const { first, second } = await chain(api);
  assert.equal((await api.delete(`${snapshots}/first`)).status, 204);
  assert.equal((await api.delete(`${snapshots}/first`)).json.code, 'snapshot_not_found');
  assert.equal((await api.post(`${box}/restore`, { label: 'first' })).json.code, 'snapshot_not_found');
  const info = (await api.get(box)).json;
  assert.deepEqual([info.active_snapshot, info.snapshots.length], [null, 1]);
  const [left] = (await api.get(snapshots)).json.items;
  assert.deepEqual([left.label, left.whole, left.base], ['second', false, null]);
  // Its label is free, and a new snapshot under it is another one.
  assert.equal((await api.post(`${box}/snapshot`, { label: 'first' })).status, 200);
  assert.equal((await api.delete(`${snapshots}/first`)).status, 204);
  // What a guest has not written out goes with it, as by a power cut.
  if (isOnVms) await sh(api, 'sync');
  await daemon.stop();
  // As after a reboot: the sandbox has to be started on its layers again.
  const isLauncher = ({ command }: { readonly command: string }): boolean =>
    command.includes('squash-launch');
  signalAll(daemon.dataDir, 'SIGTERM', isLauncher);
  await waitFor('the launcher to end', () => !processesOf(daemon.dataDir).some(isLauncher));
  await removeDataDirectory(join(daemon.dataDir, 'layers'));
  await daemon.start();
  assert.equal(await sh(api, look), second);
  const whole = await download(daemon, 'second');
  assert.equal(
    (await api.send('PUT', `${snapshots}/again/file`, { headers: type, text: whole })).status,
    200,
  );
  assert.equal((await api.delete(`${snapshots}/second`)).status, 204);
  assert.equal((await api.post(`${box}/restore`, { label: 'again' })).status, 200);
  assert.equal(await sh(api, look), second);
  assert.notEqual(first, second);
  const files = (): readonly string[] => readdirSync(join(daemon.dataDir, 'sandboxes/box/snapshots'));
  // They go behind the answer.
  await waitFor('the removed snapshots to go', () => files().length === 1);
  assert.deepEqual(files(), ['again.squashfs']);
});

test('an uploaded snapshot is refused and leaves nothing when it is no image, and a file put there by hand is found', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  await sh(api, 'echo kept >/file');
  await api.post(`${box}/snapshot`, { label: 'good' });
  const good = await download(daemon, 'good');
  for (const text of [Buffer.from('no image at all'), good.subarray(0, 300)]) {
    const refused = await api.send('PUT', `${snapshots}/bad/file`, { headers: type, text });
    assert.deepEqual([refused.status, refused.json.code], [422, 'snapshot_invalid'], refused.text);
    assert.ok(!refused.text.includes(daemon.dataDir), refused.text);
    assert.match(refused.text, /sent for snapshot \\"bad\\"/);
  }
  assert.equal((await api.send('PUT', `${snapshots}/.bad/file`, { headers: type, text: good })).status, 400);
  const nowhere = await api.send('PUT', '/v1/sandboxes/none/snapshots/x/file', { headers: type, text: good });
  assert.equal(nowhere.json.code, 'sandbox_not_found');
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'tmp')), []);
  copyFileSync(fileOf(daemon, 'good'), fileOf(daemon, 'by-hand'));
  writeFileSync(fileOf(daemon, 'text'), 'no image');
  assert.equal((await api.post(`${box}/restore`, { label: 'by-hand' })).status, 200);
  assert.equal(await sh(api, 'cat /file'), 'kept\n');
  assert.equal((await api.post(`${box}/restore`, { label: 'text' })).json.code, 'layer_corrupt');
  copyFileSync(fileOf(daemon, 'good'), fileOf(daemon, 'later'));
  assert.equal((await api.get(`${snapshots}/later`)).json.size_bytes, good.length);
  await daemon.stop();
  copyFileSync(fileOf(daemon, 'good'), fileOf(daemon, 'while-away'));
  await daemon.start();
  assert.ok((await api.get(box)).json.snapshots.some((each: SnapshotDetails) => each.label === 'while-away'));
});

const holes = isOnVms ? 'a microVM tells its files by its PID 1, holes as zeros' : false;

test('a snapshot of sparse terabytes is refused by their length before anything is packed', {
  skip: holes,
}, async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_UPPER_LIMIT_MB: '1024' } });
  const api = await box1(daemon);
  await sh(api, 'i=0; while [ $i -lt 80 ]; do truncate -s 1000M /hole$i; i=$((i+1)); done');
  const began = performance.now();
  const refused = await api.post(`${box}/snapshot`, { label: 'holes' });
  assert.equal(refused.status, 507, refused.text);
  assert.match(refused.json.error, /longer than 68719476736 bytes together, holes included/);
  assert.ok(performance.now() - began < 10_000);
  await sh(api, 'rm /hole*');
  assert.equal((await api.post(`${box}/snapshot`, { label: 'none' })).status, 200);
});

/** Processor time that an image tool has in each period; undefined while none has a group. */
function toolQuotaOf(daemon: TestDaemon): number | undefined {
  const file = cgroupsOf(daemon.dataDir)
    .filter((path) => /\/t\d+$/.test(path))
    .flatMap((path) => ['cpu.cfs_quota_us', 'cpu.max'].map((name) => join(path, name)))
    .find((path) => existsSync(path));
  // A new group has no limit yet.
  const quota = file === undefined ? 0 : Number.parseInt(readFileSync(file, 'utf8'), 10);
  return quota > 0 ? quota : undefined;
}

test('a removal does not wait for the snapshot that is being packed', { skip: holes }, async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_UPPER_LIMIT_MB: '1024' } });
  const api = await box1(daemon);
  // Zeros without room on the disk: mksquashfs reads them for many seconds.
  await sh(api, 'i=0; while [ $i -lt 60 ]; do truncate -s 1000M /hole$i; i=$((i+1)); done');
  const snapshot = api.post(`${box}/snapshot`, { label: 'long' });
  const later = api.post(`${box}/snapshot`, { label: 'later' });
  await waitFor('the packing to begin', () =>
    readdirSync(join(daemon.dataDir, 'tmp')).some((name) => name.startsWith('pack-')),
  );
  // Where the host has the controller, the tool's group has less than all processors.
  const { warnings } = (await api.get(box)).json;
  if (!warnings.some(({ code }: Warning) => code === 'cpu_limit')) {
    const limit = await waitFor('the group of the tool', () => toolQuotaOf(daemon));
    assert.ok(limit <= cpus().length * 75_000, `${limit}`);
  }
  const began = performance.now();
  assert.equal((await api.send('DELETE', box)).status, 204);
  assert.ok(performance.now() - began < 5_000, `${performance.now() - began} ms`);
  assert.deepEqual([(await snapshot).status, (await later).status], [404, 404]);
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'sandboxes')), []);
  await waitFor('the work to be gone', () => readdirSync(join(daemon.dataDir, 'tmp')).length === 0);
});

/** Stops the first process of this daemon's sandboxes and tools that is running the program; its id. */
async function stopTool(daemon: TestDaemon, program: string): Promise<number> {
  return await waitFor(`${program} to begin`, () => {
    const tool = processesOf(daemon.dataDir).find(
      // The launcher asks once what the host's tools can do: whoever stops that one stops the launcher.
      ({ command }) => command.split(' ')[0]?.endsWith(program) === true && !command.endsWith(' -help'),
    );
    if (tool === undefined) return undefined;
    try {
      process.kill(tool.pid, 'SIGSTOP');
    } catch {
      // It has ended meanwhile.
      return undefined;
    }
    return tool.pid;
  });
}

test('a removal does not wait for an upload that is being unpacked', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  // Unpacked for long enough to be met on a busy machine.
  const files = 'i=0; mkdir /many; cd /many; while [ $i -lt 3000 ]; do echo $i >$i; i=$((i+1)); done';
  await sh(api, `${files}; for i in 1 2 3 4; do cp -r /many /many$i; done`);
  await api.post(`${box}/snapshot`, { label: 'many' });
  const text = await download(daemon, 'many');
  const upload = api.send('PUT', `${snapshots}/again/file`, { headers: type, text });
  await stopTool(daemon, 'unsquashfs');
  const began = performance.now();
  assert.equal((await api.send('DELETE', box)).status, 204);
  assert.ok(performance.now() - began < 10_000, `${performance.now() - began} ms`);
  assert.deepEqual([(await upload).status, (await upload).json.code], [404, 'sandbox_not_found']);
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'sandboxes')), []);
  await waitFor('the work to be gone', () => readdirSync(join(daemon.dataDir, 'tmp')).length === 0);
});

test('a snapshot that is merged for a download holds up nothing of its sandbox but its layers, and goes with it', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_UPPER_LIMIT_MB: '1024' } });
  const api = await box1(daemon);
  // Read for long enough to be met.
  await sh(api, 'for i in 1 2 3; do truncate -s 1000M /hole$i; done');
  const { second } = await chain(api);
  const whole = download(daemon, 'second');
  const tool = await stopTool(daemon, 'mksquashfs');
  // Each takes the sandbox's turn; the last two leave the snapshot's layers to nobody but the download.
  assert.equal((await api.post(`${box}/snapshot`, { label: 'third' })).status, 200);
  assert.equal((await api.delete(`${snapshots}/third`)).status, 204);
  assert.equal((await api.delete(`${snapshots}/second`)).status, 204);
  process.kill(tool, 'SIGCONT');
  const stored = await api.send('PUT', `${snapshots}/moved/file`, { headers: type, text: await whole });
  assert.equal(stored.status, 200, stored.text);
  assert.equal((await api.post(`${box}/restore`, { label: 'moved' })).status, 200);
  assert.equal(await sh(api, look), second);
  // What is written on it makes another one that has to be merged.
  assert.equal((await api.post(`${box}/snapshot`, { label: 'fourth' })).status, 200);
  const late = api.get(`${snapshots}/fourth/file`);
  await stopTool(daemon, 'mksquashfs');
  const began = performance.now();
  assert.equal((await api.send('DELETE', box)).status, 204);
  assert.ok(performance.now() - began < 10_000, `${performance.now() - began} ms`);
  assert.equal((await late).json.code, 'sandbox_not_found');
  await waitFor('the work to be gone', () => readdirSync(join(daemon.dataDir, 'tmp')).length === 0);
});
