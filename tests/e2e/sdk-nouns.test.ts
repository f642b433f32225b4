/** What a program reaches through a sandbox of `@squash/sdk`, and the operator's nouns, against a real daemon that is killed on the way. */
import assert from 'node:assert/strict';
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  Conflict,
  NotFound,
  outputBytes,
  type ProcessEvent,
  type Sandbox,
  Squash,
  SquashError,
  TimedOut,
} from '@squash/sdk';
import { packModule } from '../support/base-layer.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

let daemon: TestDaemon;
let squash: Squash;
let box: Sandbox;
let folder: string;
before(async () => {
  daemon = await TestDaemon.start();
  squash = new Squash({ url: daemon.url, token: '' });
  box = await squash.sandboxes.create();
  folder = await mkdtemp(join(tmpdir(), 'squash-sdk-'));
});
after(async () => {
  await box.remove();
  squash.close();
  await daemon[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  return await Array.fromAsync(items);
}

test('output goes on at the next byte when its daemon is killed under it', async () => {
  const process = await box.start(
    'i=0; while read x; do i=$((i+1)); printf "%s:%s\\n" $i $x; done; echo end >&2',
    {
      stdin: true,
      tag: 'counter',
    },
  );
  const seen: ProcessEvent[] = [];
  let text = '';
  await process.write('one\n');
  for await (const event of process.output()) {
    seen.push(event);
    if (event.type !== 'output') continue;
    text += event.text ?? '';
    if (text === '1:one\n') {
      await daemon.kill();
      await daemon.start();
      const again = await box.processes.get('counter');
      assert.equal(again.number, process.number);
      await again.write(new TextEncoder().encode('two\n'));
      await again.closeStdin();
    }
  }
  assert.equal(text, '1:one\n2:two\nend\n');
  assert.deepEqual([...new Set(seen.map(({ type }) => type))], ['process', 'output', 'exit']);
  assert.deepEqual(
    await all(process.output({ from: 6, follow: false, streams: 'stdout' })).then((events) =>
      events.flatMap((event) => (event.type === 'output' ? [event.text] : [])).join(''),
    ),
    '2:two\n',
  );
  const result = await process.result();
  assert.deepEqual([result.stdout, result.stderr, result.exit_code], ['1:one\n2:two\n', 'end\n', 0]);
});

test('processes are waited for, signalled, resized and listed', async () => {
  const server = await box.start(['sh', '-c', 'echo ready 1; exec sleep 100'], {
    pty: { rows: 10, columns: 20 },
  });
  assert.equal((await server.wait({ pattern: 'ready *' })).line, 'ready 1');
  await assert.rejects(server.wait({ text: 'never', timeout_ms: 50 }), TimedOut);
  await server.resize(100, 30);
  await server.signal('KILL');
  assert.equal((await server.wait()).process.reason, 'signaled');
  assert.equal((await server.result()).stdout, 'ready 1\r\n');
  await assert.rejects(server.write('x'), Conflict);
  const binary = await box.start(['printf', '\\377\\000a']);
  const parts = (await all(binary.output())).flatMap((event) =>
    event.type === 'output' ? [...outputBytes(event)] : [],
  );
  assert.deepEqual(parts, [255, 0, 97]);
  assert.ok((await all(box.processes.list({ state: 'ended', limit: 1 }))).length >= 2);
  await assert.rejects(box.processes.get(999_999), NotFound);
});

test('files of any length and name are written, read, found, moved and watched', async () => {
  const { files } = box;
  const text = 'grün\nsecond line\n';
  const made = await files.write('/w/a.txt', text, { parents: true, mode: '640' });
  assert.deepEqual([made.size, made.mode], [18, '0640']);
  assert.equal(await files.readText('/w/a.txt'), text);
  assert.deepEqual(await files.read('/w/a.txt', { range: [6, 12] }), new TextEncoder().encode('second'));
  await assert.rejects(files.write('/w/a.txt', 'x', { if_none_match: '*' }), SquashError);
  await assert.rejects(files.read('/w/a.txt', { bytes_max: 5 }), /longer than 5 bytes/);
  await assert.rejects(
    files.readText('/w/none'),
    (error: unknown) => error instanceof NotFound && error.code === 'file_not_found',
  );
  const odd = Uint8Array.of(0x2f, 0x77, 0x2f, 0xff, 0xfe);
  const large = new Uint8Array(3_000_000).map((_, at) => at % 251);
  const inParts = async function* () {
    for (let at = 0; at < large.length; at += 100_000) yield large.subarray(at, at + 100_000);
    await Promise.resolve();
  };
  await files.write(odd, inParts());
  assert.deepEqual(Buffer.from(await files.read(odd)).equals(large), true);
  await files.makeDirectory('/w/d');
  await files.move('/w/a.txt', '/w/d/b.txt');
  await files.copy('/w/d', '/w/e', { recursive: true });
  await files.link('/w/link', 'd/b.txt');
  await files.change('/w/e/b.txt', { mode: '600' });
  assert.equal((await files.stat('/w/link')).target, 'd/b.txt');
  assert.equal(await files.exists('/w/a.txt'), false);
  assert.deepEqual(
    (await all(files.glob('/w', '**/*.txt', { limit: 1 }))).map(({ path }) => path),
    ['d/b.txt', 'e/b.txt'],
  );
  const match = await files.search('/w', 'second');
  assert.deepEqual([match.items.length, match.items[0]?.line], [2, 2]);
  assert.equal((await all(files.list('/w'))).length, 4);
  const watched: string[] = [];
  for await (const event of files.watch('/w/d')) {
    watched.push(event.type === 'change' ? `${event.change} ${event.path}` : event.type);
    if (event.type === 'watching') await files.remove('/w/d/b.txt');
    else break;
  }
  assert.deepEqual(watched, ['watching', 'removed b.txt']);
  await files.remove('/w', { recursive: true });
});

test('a directory goes into a sandbox and comes back as it was', async () => {
  const [from, to] = [join(folder, 'from'), join(folder, 'to')];
  const long = 'x'.repeat(120);
  await mkdir(join(from, 'deep', long), { recursive: true });
  await mkdir(join(from, 'empty'));
  await writeFile(join(from, 'deep', long, 'ü.txt'), 'text');
  await writeFile(join(from, 'large'), Buffer.alloc(200_000, 7));
  await writeFile(join(from, 'run.sh'), '#!/bin/sh\n');
  await chmod(join(from, 'run.sh'), 0o755);
  await symlink('../outside', join(from, 'deep', 'link'));
  const { entries } = await box.files.uploadDirectory(from, '/up/here');
  assert.equal(entries, 7);
  assert.equal(await box.files.downloadDirectory('/up/here', to), 7);
  assert.deepEqual(
    (await readdir(to, { recursive: true })).sort(),
    (await readdir(from, { recursive: true })).sort(),
  );
  assert.equal(await readFile(join(to, 'deep', long, 'ü.txt'), 'utf8'), 'text');
  assert.equal((await lstat(join(to, 'run.sh'))).mode & 0o111, 0o111);
  await assert.rejects(
    box.files.downloadDirectory('/up/here', to),
    (error: unknown) => error instanceof SquashError && error.code === 'file_exists',
  );
  await box.exec('mkfifo /up/here/fifo');
  await assert.rejects(box.files.downloadDirectory('/up/gone', join(folder, 'gone')), NotFound);
  assert.deepEqual(await readdir(folder), ['from', 'to']);
});

test('snapshots are taken, compared, carried and restored, and ports and policy are seen to', async () => {
  await box.files.write('/state', 'one');
  assert.equal((await box.snapshot('first')).label, 'first');
  await box.files.write('/state', 'two');
  assert.deepEqual(
    (await all(box.snapshots.diff('first', { against: 'current' }))).map(({ path }) => path),
    ['/state'],
  );
  await box.snapshots.download('first', join(folder, 'first.squashfs'));
  await box.snapshots.upload('second', await readFile(join(folder, 'first.squashfs')));
  await box.restore('second');
  assert.equal(await box.files.readText('/state'), 'one');
  assert.deepEqual((await all(box.snapshots.list({ limit: 1 }))).map(({ label }) => label).sort(), [
    'first',
    'second',
  ]);
  await box.snapshots.remove('second');
  await assert.rejects(box.snapshots.get('second'), NotFound);

  await box.network.setPolicy({ allow: ['example.com'] });
  assert.equal((await box.network.test('https://other.example/')).allowed, false);
  assert.deepEqual((await box.network.decisions()).decisions, []);
  await assert.rejects(
    box.ports.wait(81, { timeout_ms: 10 }),
    (error: unknown) => error instanceof SquashError && error.code === 'port_unreachable',
  );
  assert.match((await box.ports.url(3000)).url ?? '', /^http:\/\/3000-/);
});

test('the operator’s nouns answer, and events go on behind the last one', async () => {
  await packModule(join(folder, 'm.squashfs'), { 'm/file': 'of a module\n' });
  await squash.modules.import('200-m', await readFile(join(folder, 'm.squashfs')));
  await box.modules.activate('200-m');
  assert.equal(await box.files.readText('/m/file'), 'of a module\n');
  assert.ok((await all(squash.modules.list())).some(({ name }) => name === '200-m'));
  const { sha256 } = await squash.modules.get('200-m');
  const manifest = { schema: 1, name: '200-m', built_at: '2026-11-23T00:00:00Z', builder: 'make' } as const;
  const described = { ...manifest, base: null, packages: ['m=1'], squashfs_sha256: sha256 };
  assert.deepEqual((await squash.modules.describe('200-m', described)).packages, ['m=1']);
  assert.equal((await squash.modules.verify('200-m')).builder, 'make');
  const { dry_run: isDry, trees_removed: wouldGo } = await squash.modules.gc({ dryRun: true });
  assert.deepEqual([isDry, (await squash.modules.gc()).trees_removed], [true, wouldGo]);
  await squash.modules.download('200-m', join(folder, 'back.squashfs'));
  assert.ok(
    (await readFile(join(folder, 'back.squashfs'))).equals(await readFile(join(folder, 'm.squashfs'))),
  );
  const volume = await squash.volumes.create({ name: 'data', size_mb: 16 });
  if (isOnVms) await box.pause({ keep: 'files' });
  const mount = await box.mounts.attach({ volume: volume.id, path: '/data' });
  assert.equal((await all(box.mounts.list())).length, 1);
  await box.mounts.detach(mount.id);
  if (isOnVms) await box.resume();
  await squash.volumes.remove('data');
  const key = await squash.keys.create({ name: 'ci', owner: 'team', scope: 'read' });
  const other = new Squash({ url: daemon.url, token: key.token });
  assert.equal((await other.keys.self()).owner, 'team');
  await squash.keys.remove(key.id);
  const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea';
  const login = await squash.sshKeys.create({ name: 'laptop', owner: 'team', public_key: publicKey });
  assert.equal((await squash.sshKeys.get(login.id)).fingerprint, login.fingerprint);
  await squash.sshKeys.remove(login.id);
  assert.deepEqual(await all(squash.sshKeys.list()), []);
  await squash.secrets.set('TOKEN', { value: 'a-secret-value', allowed_hosts: ['example.com'] });
  assert.deepEqual(
    (await squash.secrets.list()).map(({ name }) => name),
    ['TOKEN'],
  );
  await squash.secrets.remove('TOKEN');
  await squash.owners.setQuota('team', { sandboxes: 1 });
  assert.equal((await squash.owners.quota('team')).quota.sandboxes, 1);
  assert.deepEqual(
    [
      await squash.webhooks.list(),
      await all(squash.approvals.list()),
      await squash.approvals.standing.list(),
    ],
    [[], [], []],
  );
  assert.ok((await squash.presets()).length > 0);
  assert.equal((await squash.checkMount({ host: '/srv', path: '/srv', tier: 'main' })).reason, 'not_allowed');
  assert.ok((await squash.ticket(`/v1/sandboxes/${box.id}/exec`)).ticket);
  for await (const record of squash.audit({ operation: 'key.create' })) {
    assert.equal(record.operation, 'key.create');
    break;
  }
  const types: string[] = [];
  for await (const event of squash.events({ after: 0, sandbox: box.id })) {
    types.push(event.type);
    if (event.type === 'mount.detached') break;
  }
  assert.equal(types[0], 'sandbox.created');
  assert.ok(types.includes('snapshot.created'));
});

test('groups, chats and tiers are made, spoken to and removed', async () => {
  const { groups } = squash;
  const {
    name: _name,
    built_in: _,
    ...matrix
  } = (await groups.tiers.list()).find(({ name }) => name === 'untrusted') ?? assert.fail();
  const tier = await groups.tiers.set('asking', { ...matrix, message: { own: 'allow', others: 'hold' } });
  const body = `{"id":"a","action":"message.send","chat":"nobody","text":"hello"}`;
  const command = ['/bin/sh', '-c', `echo hi; wget -q -O - --post-data '${body}' $SQUASH_CHANNEL/actions`];
  await groups.create({ name: 'sdk', tier: tier.name, command });
  await groups.chats.create({ name: 'sdk-chat', group: 'sdk' });
  const { run } = await groups.chats.message('sdk-chat', { sender: 'alice', text: 'hello' });
  const done = async (): Promise<boolean> => {
    const [last] = await groups.runs('sdk');
    return last !== undefined && last.run === run && last.finished_at !== null && last.sandbox === null;
  };
  await waitFor('the run', done);
  assert.equal((await groups.chats.read('sdk-chat', { limit: 1 }))[0]?.by, 'sdk');
  await groups.chats.reset('sdk-chat');
  assert.equal((await groups.chats.list())[0]?.session, null);
  const [held] = await groups.actions({ state: 'held' });
  assert.equal((await groups.decide(held?.number ?? 0, { decision: 'deny', reason: 'no' })).reason, 'no');
  const daily = { chat: 'sdk-chat', name: 'daily', text: 'hello', cron: '0 7 * * *' };
  const { next_at: first } = await groups.schedules.create(daily);
  assert.equal((await groups.schedules.pause('sdk-chat', 'daily')).next_at, null);
  assert.equal((await groups.schedules.resume('sdk-chat', 'daily')).next_at, first);
  assert.deepEqual(await groups.schedules.runs('sdk-chat', 'daily', { limit: 1 }), []);
  assert.equal((await groups.schedules.list({ group: 'sdk' }))[0]?.time_zone, 'UTC');
  await groups.schedules.remove('sdk-chat', 'daily');
  await assert.rejects(groups.schedules.get('sdk-chat', 'daily'), { code: 'schedule_not_found' });
  assert.deepEqual([(await groups.list()).length, (await groups.chats.list()).length], [1, 1]);
  assert.equal((await groups.get('sdk')).tier, 'asking');
  await groups.chats.remove('sdk-chat');
  await groups.remove('sdk');
  await groups.tiers.remove('asking');
  await assert.rejects(groups.get('sdk'), { code: 'group_not_found' });
});
