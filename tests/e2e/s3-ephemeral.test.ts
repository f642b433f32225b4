/** Ephemeral mode: a sandbox's files outlive the machine, and what cannot be saved is not removed. */
import assert from 'node:assert/strict';
import { readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { isOnVms, written } from '../support/backend.ts';
import { TestBucket } from '../support/bucket.ts';
import { removeDataDirectory } from '../support/data-directory.ts';
import { TestDaemon } from '../support/daemon.ts';
import { squash, squashOk } from '../support/cli.ts';
import { isSingleId } from '../support/data-session.ts';
import { waitFor } from '../support/wait.ts';

let bucket: TestBucket;
before(async () => {
  bucket = await TestBucket.start();
});
after(async () => {
  await bucket[Symbol.asyncDispose]();
});
beforeEach(() => {
  bucket.fault = () => 'none';
});

const api = '/cgi-bin/api/sandboxes';
const machine = (interval = '3600'): Promise<TestDaemon> =>
  TestDaemon.start({
    env: { ...bucket.environment, SQUASH_EPHEMERAL: '1', SQUASH_EPHEMERAL_INTERVAL: interval },
  });

const create = (daemon: TestDaemon, id: string, more: object = {}) =>
  daemon.request('POST', api, { id, layers: '000-base-test', ...more });

async function exec(daemon: TestDaemon, id: string, cmd: string): Promise<string> {
  const { json, status, text } = await daemon.request('POST', `${api}/${id}/exec`, { cmd });
  assert.equal(status, 200, text);
  assert.equal(json.exit_code, 0, json.stderr);
  return json.stdout;
}

const destroy = (daemon: TestDaemon, id: string) => daemon.request('DELETE', `${api}/${id}`);

/** A path that is longer than any call takes, and than a snapshot can tell. */
const deep =
  'mkdir /deep; cd /deep; n=$(printf %0200d 0); i=0; while [ $i -lt 25 ]; do mkdir $n; cd $n; i=$((i+1)); done';

const shallow =
  'cd /deep; i=0; while [ $i -lt 12 ]; do cd 0*; i=$((i+1)); done; mv 0* /half; rm -rf /deep /half';

async function snapshotsOf(id: string): Promise<readonly string[]> {
  return (await bucket.keys(`sandboxes/${id}/snapshots/`)).map((key) => key.slice(0, -'.squashfs'.length));
}

test('a sandbox that is removed is back with its files on another machine, life after life', async () => {
  {
    await using one = await machine();
    assert.equal((await create(one, 'dev')).status, 201);
    const chown = (await isSingleId(one)) ? 'true' : 'chown 7:7 /gone';
    await exec(one, 'dev', `echo 0 > /life; echo gone > /gone; ${chown}`);
    // One that stands still, and of which a client keeps a snapshot.
    assert.equal((await one.request('POST', `${api}/dev/snapshot`, { label: 'kept' })).status, 200);
    assert.equal((await one.request('POST', '/v1/sandboxes/dev/pause')).status, 200);
    assert.equal((await destroy(one, 'dev')).status, 204);
    // It is there when the answer comes, and nothing of it here.
    assert.equal((await snapshotsOf('dev')).length, 2);
    assert.deepEqual(readdirSync(join(one.dataDir, 'sandboxes')), []);
  }
  for (let life = 1; life <= 4; life += 1) {
    // Each on a fresh data directory.
    await using next = await machine();
    const made = await create(next, 'dev');
    assert.equal(made.status, 201, made.text);
    assert.equal(await exec(next, 'dev', 'cat /life'), `${life - 1}\n`);
    await exec(next, 'dev', `echo ${life} > /life; test ${life} = 1 && rm /gone; test ! -e /gone`);
    // By hand, and by the end of the daemon.
    if (life % 2 === 0) assert.equal((await destroy(next, 'dev')).status, 204);
    else await next.stop();
    assert.deepEqual(readdirSync(join(next.dataDir, 'sandboxes')), []);
  }
  // Of those that the daemon takes by itself the last ones stay, and the client's own.
  const left = await snapshotsOf('dev');
  assert.equal(left.length, 4, left.join());
  assert.ok(left.includes('kept'));
  await using last = await machine();
  const others = await create(last, 'dev', { owner: 'bob' });
  assert.equal(others.status, 400, others.text);
  assert.equal(others.json.code, 'sandbox_exists');
  assert.equal((await create(last, 'dev')).status, 201);
  assert.equal((await last.request('POST', `${api}/dev/restore`, { label: 'kept' })).status, 200);
  assert.equal(
    await exec(last, 'dev', 'cat /life; stat -c %u /gone'),
    `0\n${(await isSingleId(last)) ? 0 : 7}\n`,
  );
});

test('a bucket that is away lets nothing be removed, and loses nothing', async () => {
  await using daemon = await machine();
  assert.equal((await create(daemon, 'safe')).status, 201);
  await exec(daemon, 'safe', 'echo safe > /safe');
  bucket.fault = () => 'refuse';
  const refused = await destroy(daemon, 'safe');
  assert.equal(refused.status, 503, refused.text);
  assert.equal((await create(daemon, 'new')).status, 503);
  // It goes on where it was.
  assert.equal(await exec(daemon, 'safe', 'cat /safe'), 'safe\n');
  for (let again = 1; again <= 6; again += 1) assert.equal((await destroy(daemon, 'safe')).status, 503);
  const failures = /^squash_bucket_snapshots_failures_total (\d+)/m.exec(
    (await daemon.request('GET', '/metrics')).text,
  );
  assert.ok(Number(failures?.[1]) >= 8, failures?.[0]);
  // Of the snapshots' queue: at 1, 2, 4 and 8.
  const told = daemon.output.split('\n').filter((line) => line.includes('bucket.failed'));
  assert.ok(told.length <= 2 * (1 + Math.log2(Number(failures?.[1]))), told.join('\n'));
  const { problems } = (await daemon.request('GET', '/cgi-bin/health')).json as {
    problems: { code: string }[];
  };
  assert.ok(problems.some(({ code }) => code === 'bucket_unavailable'));
  // The daemon stops all the same, which says so, and the next one has it.
  const stopped = await squash(daemon, ['stop']);
  assert.equal(stopped.code, 1, stopped.stderr);
  assert.match(stopped.stdout.toString(), /^Stopped the daemon.*\nNot saved: safe: .*bucket/);
  assert.match(stopped.stderr, /of a sandbox: kept here .*\(not_saved\)/);
  assert.equal(await daemon.ended(), 74);
  await daemon.start();
  assert.equal(await exec(daemon, 'safe', 'cat /safe'), 'safe\n');
  bucket.fault = () => 'none';
  assert.equal((await destroy(daemon, 'safe')).status, 204);
  assert.equal((await create(daemon, 'safe')).status, 201);
  assert.equal(await exec(daemon, 'safe', 'cat /safe'), 'safe\n');
  // Killed while it is saved: the next daemon has it as it was, and nothing that is half made.
  await exec(daemon, 'safe', 'echo more > /more');
  const stalled = Promise.withResolvers<void>();
  bucket.fault = ({ method }) => {
    if (method !== 'PUT') return 'none';
    stalled.resolve();
    return 'stall';
  };
  const lost = destroy(daemon, 'safe').catch(() => undefined);
  await stalled.promise;
  await daemon.kill();
  await lost;
  bucket.fault = () => 'none';
  await daemon.start();
  assert.equal(await exec(daemon, 'safe', 'cat /safe /more'), 'safe\nmore\n');
  await waitFor('what it had taken is gone', async () => {
    const { items } = (await daemon.request('GET', '/v1/sandboxes/safe/snapshots')).json as {
      items: { location: string; active: boolean }[];
    };
    return items.every(({ location, active }) => location === 'remote' || active);
  });
  assert.equal((await destroy(daemon, 'safe')).status, 204);
  assert.equal((await create(daemon, 'safe')).status, 201);
  assert.equal(await exec(daemon, 'safe', 'cat /safe /more'), 'safe\nmore\n');
  // What nothing has run in is not saved again.
  const before = await snapshotsOf('safe');
  assert.equal((await destroy(daemon, 'safe')).status, 204);
  assert.ok((await snapshotsOf('safe')).length >= before.length);
});

test('the loss of a machine takes what was written since the last save, and a kill of the daemon nothing', async () => {
  await using one = await machine('1');
  assert.equal((await create(one, 'lost')).status, 201);
  // A microVM has something written at once, of which a save may be under way: the next one has it.
  if (isOnVms) await waitFor('its first', async () => (await snapshotsOf('lost')).length > 0);
  await exec(one, 'lost', `echo saved > /saved${written}`);
  const before = isOnVms ? await snapshotsOf('lost') : [];
  await waitFor('it is saved', async () => {
    const now = await snapshotsOf('lost');
    return now.length > 0 && now.join() !== before.join();
  });
  await one.kill();
  await one.start();
  assert.equal(await exec(one, 'lost', 'cat /saved'), 'saved\n');
  await waitFor('the save is whole', async () => {
    const text = await bucket.read('sandboxes/lost/manifest.json').catch(() => undefined);
    return text?.toString().includes('"latest_snapshot"');
  });
  await one.cutPower();
  for (const name of readdirSync(join(one.dataDir, 'sandboxes')))
    await removeDataDirectory(join(one.dataDir, 'sandboxes', name));
  await one.forgetDatabase();
  await one.start();
  assert.equal((await create(one, 'lost')).status, 201);
  assert.equal(await exec(one, 'lost', 'cat /saved'), 'saved\n');
});

test('a sandbox whose files fit in no snapshot is told as that, not as a bucket that is away', async () => {
  await using daemon = await machine();
  assert.equal((await create(daemon, 'deep')).status, 201);
  await exec(daemon, 'deep', deep);
  const refused = await destroy(daemon, 'deep');
  assert.equal(refused.status, 400, refused.text);
  assert.equal(refused.json.code, 'snapshot_path_too_long');
  const { problems } = (await daemon.request('GET', '/cgi-bin/health')).json as {
    problems: { code: string; message: string }[];
  };
  assert.deepEqual(
    problems.map(({ code }) => code),
    ['save_pending'],
  );
  assert.match(problems[0]?.message ?? '', /"deep" for one/);
  assert.match(refused.text, /squash rm --set-aside deep/);
  // On purpose it goes without: its files stay on this machine, and come back by hand.
  await squashOk(daemon, ['rm', '--set-aside', 'deep']);
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'sandboxes')), []);
  const [aside = ''] = readdirSync(join(daemon.dataDir, 'unsaved'));
  const { items } = (await daemon.request('GET', '/v1/events?type=sandbox.destroyed')).json as {
    items: { data: object }[];
  };
  assert.deepEqual(items[0]?.data, { aside: `unsaved/${aside}` });
  await daemon.stop();
  renameSync(join(daemon.dataDir, 'unsaved', aside), join(daemon.dataDir, 'sandboxes', 'deep'));
  const repaired = await squash(daemon, ['doctor', '--repair']);
  assert.match(repaired.stdout.toString(), /1 sandboxes/);
  assert.equal(repaired.code, 0, repaired.stdout.toString());
  await daemon.start();
  await exec(daemon, 'deep', shallow);
  assert.equal((await destroy(daemon, 'deep')).status, 204);
});
