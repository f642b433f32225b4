/** Snapshots that hold what changed since the one before: as small as that, and each as good as a whole one. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { SnapshotDetails } from '@squash/contract/native-snapshot';
import { ApiClient } from '../support/api-client.ts';
import { repository } from '../support/base-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { ownedPrefix } from '../support/owned-directory.ts';

let directory: string;
before(() => {
  directory = mkdtempSync(join(tmpdir(), ownedPrefix('share')));
  const source = join(repository, 'tests/support/mutate.c');
  execFileSync('gcc', ['-static', '-O1', '-w', '-o', join(directory, 'mutate'), source]);
});
after(() => rmSync(directory, { recursive: true, force: true }));

const boxes = '/cgi-bin/api/sandboxes';
const snapshots = '/v1/sandboxes/box/snapshots';

async function sh(api: ApiClient, id: string, cmd: string): Promise<string> {
  const { json, text } = await api.post(`${boxes}/${id}/exec`, { cmd });
  assert.equal(json.exit_code, 0, `${cmd}: ${text}`);
  return json.stdout;
}

async function take(api: ApiClient, label: string): Promise<SnapshotDetails> {
  const taken = await api.post(`${boxes}/box/snapshot`, { label });
  assert.equal(taken.status, 200, taken.text);
  return (await api.get(`${snapshots}/${label}`)).json;
}

async function makeBox(daemon: TestDaemon): Promise<ApiClient> {
  const api = new ApiClient(daemon);
  const made = await api.post(boxes, { id: 'box', layers: '000-base-test' });
  assert.equal(made.status, 201, made.text);
  const put = await fetch(`${daemon.url}/v1/sandboxes/box/files?path=/usr/mutate&mode=0755`, {
    method: 'PUT',
    body: readFileSync(join(directory, 'mutate')),
  });
  assert.ok(put.ok, await put.text());
  return api;
}

/** What squashfs keeps of a tree: whole seconds. */
function list(tree: string): readonly string[] {
  const words = [join(repository, 'tests/support/list-tree.py'), tree, String(statSync(tree).uid)];
  const text = execFileSync('python3', words, { encoding: 'utf8', maxBuffer: 1e8 });
  return text
    .trim()
    .split('\n')
    .map((line) =>
      line
        .replace(/"mtime": (\d+)\d{9}/, '"mtime": $1')
        .replace(/"user\.overlay\.(impure|uuid)": "[^"]*"(, )?/g, ''),
    );
}

async function listDownload(daemon: TestDaemon, label: string): Promise<readonly string[]> {
  const response = await fetch(`${daemon.url}${snapshots}/${label}/file`);
  assert.equal(response.status, 200, label);
  const file = join(directory, `${label}.squashfs`);
  const tree = join(directory, label);
  writeFileSync(file, Buffer.from(await response.arrayBuffer()));
  execFileSync('unsquashfs', ['-d', tree, '-no-progress', '-quiet', '-xattrs', file], { stdio: 'pipe' });
  try {
    return list(tree);
  } finally {
    rmSync(tree, { recursive: true });
    rmSync(file);
  }
}

/** As a crash does, while the sandbox runs on. */
async function restart(daemon: TestDaemon): Promise<void> {
  await daemon.kill();
  await daemon.start();
}

const upperOf = (daemon: TestDaemon): string => join(daemon.dataDir, 'sandboxes/box/uppers/1/data');
const asDirectory = { env: { SQUASH_UPPER: 'directory' } };

test('a later snapshot costs what changed, stays what it was, and goes on after a restart and a restore', async () => {
  await using daemon = await TestDaemon.start();
  const api = await makeBox(daemon);
  await sh(
    api,
    'box',
    'mkdir /data; cd /data; dd if=/dev/urandom of=big bs=1M count=24 2>&1; for i in $(seq 300); do echo $i >f$i; done',
  );
  const first = await take(api, 's1');
  assert.ok(first.whole && first.size_bytes > 24e6);
  for (let number = 2; number <= 10; number += 1) {
    await sh(api, 'box', `echo change ${number} >/data/f7; sleep 0.05`);
    if (number === 5) await restart(daemon);
    const taken = await take(api, `s${number}`);
    assert.ok(!taken.whole && taken.size_bytes < 20_000, JSON.stringify(taken));
  }
  const { json: diff } = await api.get(`${snapshots}/s10/diff?against=s8`);
  assert.deepEqual(
    diff.items.map((each: { change: string; path: string }) => `${each.change} ${each.path}`),
    ['changed /data/f7'],
  );
  // An index that a crash has cut is none: the next one is whole.
  const indexes = join(daemon.dataDir, 'sandboxes/box/indexes');
  for (const name of readdirSync(indexes)) {
    const path = join(indexes, name);
    truncateSync(path, statSync(path).size - 8);
  }
  assert.deepEqual((await take(api, 'cut')).whole, true);
  // No more than eight lie on each other: the ninth lies on the whole one again.
  assert.equal((await api.get(`${snapshots}/s9`)).json.base, 's1');
  for (const label of ['s1', 's3', 's4', 's9']) {
    assert.equal((await api.delete(`${snapshots}/${label}`)).status, 204);
  }
  const forked = await api.post('/v1/sandboxes', { from: { sandbox: 'box', snapshot: 's6' } });
  assert.ok(forked.status < 300, forked.text);
  assert.equal(await sh(api, forked.json.id, 'cat /data/f7'), 'change 6\n');
  for (const label of ['s5', 's8', 's10']) {
    const restored = await api.post(`${boxes}/box/restore`, { label });
    assert.equal(restored.status, 200, restored.text);
    assert.equal(await sh(api, 'box', 'cat /data/f7; ls /data | wc -l'), `change ${label.slice(1)}\n301\n`);
  }
  // On what was restored lies a whole upper, and on that what changes from there.
  await sh(
    api,
    'box',
    'echo again >/data/f8; rm /data/f9; dd if=/dev/urandom of=/data/other bs=1M count=4; sleep 0.05',
  );
  const after10 = await take(api, 'after10');
  assert.deepEqual([after10.base, after10.size_bytes > 4e6], ['s10', true]);
  await sh(api, 'box', 'rm /data/f8; rm -r /data; mkdir /data; echo only >/data/only');
  await take(api, 'after11');
  const restored = await api.post(`${boxes}/box/restore`, { label: 'after11' });
  assert.equal(restored.status, 200, restored.text);
  assert.equal(await sh(api, 'box', 'ls /data'), 'only\n');
});

test('every snapshot is, merged, what a whole one of the same state would be, whatever was done in between', async () => {
  await using daemon = await TestDaemon.start(asDirectory);
  const api = await makeBox(daemon);
  const seeds = [1, 4, 9];
  await sh(
    api,
    'box',
    'mkdir -p /w/a/b /w/c; dd if=/dev/urandom of=/big bs=1M count=8 2>&1; cp -r /etc /home /w/c; sync',
  );
  await sh(api, 'box', '/usr/mutate hold /held & echo');
  const states = new Map<string, readonly string[]>();
  let changes = 0;
  for (const seed of seeds) {
    for (let step = 0; step < 6; step += 1) {
      const label = `m${seed}-${step}`;
      await sh(
        api,
        'box',
        `/usr/mutate ${seed * 1000 + step} ${step === 3 ? 60 : 8} /w /etc /home /root /var 2>&1; true`,
      );
      if (step === 5)
        await sh(
          api,
          'box',
          'mv /w/a /w/moved; mv /w/c /w/a; mv /w/moved /w/c; rm -r /home; mkdir /home; true',
        );
      assert.equal((await api.post('/v1/sandboxes/box/pause')).status < 300, true);
      const taken = await take(api, label);
      changes += taken.whole ? 0 : 1;
      states.set(label, list(upperOf(daemon)));
      assert.equal((await api.post('/v1/sandboxes/box/resume')).status < 300, true);
    }
  }
  assert.ok(changes >= 12, `${changes} of ${states.size} hold a change alone`);
  const labels = [...states.keys()];
  const removed = labels.filter((_, at) => at % 3 === 1);
  for (const label of removed) assert.equal((await api.delete(`${snapshots}/${label}`)).status, 204);
  for (const label of labels) {
    if (removed.includes(label)) continue;
    const expected = states.get(label) ?? [];
    const listed = await listDownload(daemon, label);
    // A directory over what is gone is merged as one that hides all below it: there is nothing.
    const opaque = '"user.overlay.opaque": "79"';
    const merged = listed.map((line, at) => {
      const isOpaque = expected[at]?.includes(opaque) ?? true;
      return isOpaque ? line : line.replace(new RegExp(`(, )?${opaque}|${opaque}, `), '');
    });
    assert.deepEqual(merged, expected, label);
  }
});

test('equal changes lie on each other once, and an index goes with what it was made of', async () => {
  await using daemon = await TestDaemon.start();
  const api = await makeBox(daemon);
  await sh(api, 'box', 'head -c 2000000 /dev/urandom >/data; sleep 0.1');
  await take(api, 'whole');
  // Of one second, so that both files are the same.
  await new Promise((resolve) => setTimeout(resolve, 1_010 - (Date.now() % 1_000)));
  for (const label of ['one', 'two']) await take(api, label);
  await sh(api, 'box', 'echo more >/more');
  await take(api, 'last');
  const fork = await api.post('/v1/sandboxes', { from: { sandbox: 'box', snapshot: 'last' } });
  assert.equal(fork.status, 201, fork.text);
  for (const label of ['two', 'last'])
    assert.equal((await api.post(`${boxes}/box/restore`, { label })).status, 200);
  await take(api, 'after');
  const indexes = (): readonly string[] => readdirSync(join(daemon.dataDir, 'sandboxes/box/indexes'));
  assert.ok(indexes().some((name) => name.endsWith('-after')));
  assert.equal((await api.delete(`${snapshots}/after`)).status, 204);
  assert.ok(!indexes().some((name) => name.endsWith('-after')));
});
