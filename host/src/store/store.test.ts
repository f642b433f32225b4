/** The database: numbering, history, what survives a reopening, and what happens to a file that is no database. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { AppError } from '@squash/contract/errors';
import { type HostLabel, hostLabelSchema, snapshotLabelSchema } from '@squash/contract/ids';
import { needsRoot, smallDisk } from '../../../tests/support/small-disk.ts';
import { sandboxRow, testStore } from '../../../tests/support/store.ts';
import { waitFor } from '../../../tests/support/wait.ts';
import { checkFailure, openDatabase, translate } from './database.ts';
import type { ExecRow } from './rows.ts';
import { migrations } from './schema.ts';
import { Store } from './store.ts';

const exec = {
  kind: 'exec',
  cmd: 'true',
  workdir: '/',
  timeoutMs: 1_000,
  startedMs: 5,
  instance: 4,
} as const;
const end = { finishedMs: 9, exitCode: 0, signal: undefined, timedOut: false, reason: 'exited' } as const;

function begin(store: Store, sandbox: Parameters<Store['execs']['begin']>[0]): ExecRow {
  return store.transaction(() => store.execs.begin(sandbox, exec));
}

test('a sandbox is read back as it was written', () => {
  using file = testStore('a-b_C');
  assert.deepEqual(file.reopen().sandboxes.all(), [sandboxRow('a-b_C')]);
});

test('what the last daemon committed is synced without another commit', async () => {
  using file = testStore('a');
  const { path } = file.reopen();
  const opened = (): number =>
    readdirSync('/proc/self/fd').filter((name) => linkOf(`/proc/self/fd/${name}`) === `${path}-wal`).length;
  const before = opened();
  // The sync has a descriptor of its own.
  await waitFor('a sync', () => opened() > before);
});

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    // It was closed since the folder was read.
    return undefined;
  }
}

test('numbers rise by one, are never used again, and a rolled-back one is not taken', () => {
  using file = testStore();
  const { store, id } = file;
  const first = begin(store, id);
  store.transaction(() => store.execs.finish(first.key, end));
  assert.throws(() =>
    store.transaction(() => {
      store.execs.begin(id, exec);
      throw new Error('no');
    }),
  );
  assert.equal(begin(store, id).seq, 2);
  store.transaction(() => store.execs.prune(id, { rowsMax: 0, bytesMax: 0 }));
  assert.equal(begin(file.reopen(), id).seq, 3);
});

test('an end is kept and a second one changes nothing', () => {
  using file = testStore();
  const { store, id } = file;
  const row = begin(store, id);
  assert.deepEqual(
    store.execs.unfinished(id).map(({ seq }) => seq),
    [1],
  );
  store.transaction(() => store.execs.finish(row.key, end));
  store.transaction(() => store.execs.finish(row.key, { ...end, exitCode: 3 }));
  assert.deepEqual(store.execs.get(id, 1)?.end, end);
  assert.deepEqual(store.execs.unfinished(id), []);
});

test('the history drops the oldest commands and their output, never one that runs', () => {
  using file = testStore();
  const { store, id } = file;
  const running = begin(store, id);
  for (let count = 0; count < 5; count += 1) {
    const row = begin(store, id);
    store.transaction(() => {
      store.output.append(row.key, 'stdout', Buffer.alloc(100));
      store.execs.progress(row.key, { stdoutBytes: 100, stderrBytes: 0, storedBytes: 100 });
      store.execs.finish(row.key, end);
    });
  }
  store.transaction(() => store.execs.prune(id, { rowsMax: 3, bytesMax: 10_000 }));
  const numbers = (): readonly number[] =>
    store.execs.finished(id, { after: 0, limit: 10 }).map(({ seq }) => seq);
  assert.deepEqual(numbers(), [4, 5, 6]);
  store.transaction(() => store.execs.prune(id, { rowsMax: 3, bytesMax: 250 }));
  assert.deepEqual(numbers(), [5, 6]);
  assert.deepEqual(
    store.execs.unfinished(id).map(({ seq }) => seq),
    [running.seq],
  );
});

test('output is bytes, in order per stream, and goes with its sandbox', () => {
  using file = testStore();
  const { store, id } = file;
  const row = begin(store, id);
  store.transaction(() => {
    store.output.append(row.key, 'stdout', Buffer.from([0, 255]));
    store.output.append(row.key, 'stderr', Buffer.from('e'));
    store.output.append(row.key, 'stdout', Buffer.from([1]));
  });
  assert.deepEqual([...store.output.read(row.key, 'stdout', 100)], [0, 255, 1]);
  assert.deepEqual([...store.output.read(row.key, 'stdout', 2)], [0, 255]);
  store.transaction(() => store.sandboxes.delete(id));
  assert.equal(store.output.read(row.key, 'stdout', 100).length, 0);
});

test('a rule for all that can not be read is left out, and the others hold', () => {
  using file = testStore();
  const { approvals } = file.store;
  const decided = { decidedBy: 'operator', decidedMs: 1 };
  file.store.transaction(() => {
    for (const rule of ['one.example:443', 'no host:443', { to: ['two.example:443'], methods: ['?'] }])
      approvals.addStanding({ rule, ...decided });
    approvals.addStanding({ rule: 'three.example:443', ...decided });
  });
  assert.deepEqual(
    approvals.standing().map(({ rule }) => rule),
    ['one.example:443', 'three.example:443'],
  );
});

test('instances rise over all sandboxes and over reopening', () => {
  using file = testStore();
  const next = (store: Store): number => store.transaction(() => store.sandboxes.nextInstance());
  assert.deepEqual([next(file.store), next(file.reopen())], [1, 2]);
});

test('a snapshot keeps its place in the order, and its digest is set later', () => {
  using file = testStore();
  const { store, id } = file;
  for (const label of ['z', 'a']) {
    store.transaction(() =>
      store.sandboxes.insertSnapshot(id, {
        label: snapshotLabelSchema.parse(label),
        createdMs: 1,
        size: 2,
        digest: null,
        base: null,
        layers: [],
        labels: {},
        memory: null,
      }),
    );
  }
  store.transaction(() =>
    store.sandboxes.setSnapshotDigest(id, snapshotLabelSchema.parse('z'), 'b'.repeat(64)),
  );
  const read = file.reopen().sandboxes.snapshots(id);
  assert.deepEqual(
    read.map(({ label, digest }) => [label, digest]),
    [
      ['z', 'b'.repeat(64)],
      ['a', null],
    ],
  );
});

test('a sandbox has a host label of its own: its id where that can be one', () => {
  using opened = testStore();
  const { sandboxes } = opened.store;
  const add = (id: string, wished: HostLabel | null = null): string => {
    const row = sandboxRow(id);
    const hostLabel = sandboxes.freeHostLabel(row.id, wished);
    sandboxes.insert({ ...row, hostLabel });
    return hostLabelSchema.parse(hostLabel);
  };
  assert.equal(add('web-1'), 'web-1');
  const made = hostLabelSchema.parse(add('My_App'));
  assert.match(made, /^my-app-[0-9a-f]{12}$/);
  assert.match(add(made), new RegExp(`^${made}-[0-9a-f]{12}$`), 'an id that another one has for a label');
  assert.match(add('-_-'), /^[0-9a-f]{12}$/);
  assert.match(add('a'.repeat(64)), /^a{37}-[0-9a-f]{12}$/);
  assert.equal(add('Kept', hostLabelSchema.parse('kept-0123456789ab')), 'kept-0123456789ab');
});

test('sandboxes of a database from before host labels get theirs', () => {
  using directory = scratch();
  const odd = ['A_b', '_', '--', 'a'.repeat(50), 'B'.repeat(64), 'x-', `${'c'.repeat(36)}__d`];
  const path = join(directory.path, 'squash.db');
  beforeHostLabels(path, ['dev', ...odd]);
  using store = new Store(path);
  const database = new DatabaseSync(path);
  const rows = database.prepare('SELECT id, host_label, revision FROM sandboxes').all();
  database.close();
  const labels = new Map(rows.map((row) => [row['id'], hostLabelSchema.parse(row['host_label'])]));
  assert.equal(new Set(labels.values()).size, odd.length + 1);
  assert.equal(labels.get('dev'), 'dev');
  assert.match(labels.get('A_b') ?? '', /^a-b-[0-9a-f]{12}$/);
  assert.equal(rows[0]?.['revision'], 2);
  assert.match(store.sandboxes.freeHostLabel(sandboxRow('dev').id), /^dev-[0-9a-f]{12}$/);
});

function scratch(): { readonly path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'squash-store-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) };
}

function beforeHostLabels(path: string, ids: readonly string[]): void {
  const step = migrations.findIndex((text) => text.includes('sandboxes_by_host_label'));
  const database = new DatabaseSync(path);
  for (const text of migrations.slice(0, step)) database.exec(text);
  const insert = database.prepare(`
    INSERT INTO sandboxes (id, owner, task, layers, created_ms, last_active_ms, cpu, memory_mb, max_lifetime_s, warnings,
      limits, upper_kind, upper_generation, phase, instance, next_seq, revision)
    VALUES (?, '', '', '[]', 1, 1, 1, 8, 0, '[]', '{}', 'directory', 1, 'ready', 1, 1, 1)`);
  for (const id of ids) insert.run(id);
  database.exec(`PRAGMA user_version = ${step}`);
  database.close();
}

test('a file that is no database, or a damaged one, is refused by its code and left as it is', () => {
  using file = testStore();
  for (let count = 0; count < 200; count += 1) begin(file.store, file.id);
  file.store[Symbol.dispose]();
  const sound = readFileSync(file.path);
  const damaged = Buffer.from(sound);
  damaged.fill(0x5a, 4096 * 2, 4096 * 6);
  for (const content of [Buffer.from('no database at all, but long enough to look at'), damaged]) {
    writeFileSync(file.path, content);
    assert.throws(() => openDatabase(file.path), { code: 'database_corrupt' });
    assert.deepEqual(readFileSync(file.path), content);
  }
});

test('what the disk did not give is no damage, wherever SQLite tells it', () => {
  using file = testStore();
  const code = (failure: unknown): unknown => failure instanceof AppError && failure.code;
  // Extended codes: IOERR_READ, IOERR_SHMSIZE, READONLY_DBMOVED, CANTOPEN.
  for (const errcode of [266, 4_874, 1_032, 14]) {
    const thrown = Object.assign(new Error('disk I/O error'), { errcode });
    assert.equal(code(translate(thrown, file.path)), 'database_unavailable');
    const said = `Tree 3 page 5: unable to get the page. error code=${errcode}`;
    assert.equal(code(checkFailure(said, file.path)), 'database_unavailable');
  }
  for (const said of [
    'Tree 3 page 5: btreeInitPage() returns error code 11',
    'wrong # of entries in index a',
  ])
    assert.equal(code(checkFailure(said, file.path)), 'database_corrupt');
});

test('a database of a later version is refused', () => {
  using file = testStore();
  file.store[Symbol.dispose]();
  const database = new DatabaseSync(file.path);
  database.exec('PRAGMA user_version = 999');
  database.close();
  assert.throws(() => openDatabase(file.path), { code: 'database_newer', message: /version 999/ });
});

test('a database that can not grow says that the disk is full and keeps what it has', {
  skip: needsRoot,
}, () => {
  using disk = smallDisk(2_000_000);
  using file = testStore('dev', disk.path);
  const { store, id } = file;
  const row = begin(store, id);
  disk.fill();
  assert.throws(
    () => store.transaction(() => store.output.append(row.key, 'stdout', Buffer.alloc(1_000_000))),
    { code: 'disk_full' },
  );
  assert.equal(store.execs.get(id, row.seq)?.seq, row.seq);
  disk.free();
  assert.equal(begin(store, id).seq, row.seq + 1);
});

test('a session of SSH is taken once, also behind a reopening, and the oldest of its own key is forgotten', () => {
  using file = testStore();
  const [one, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  const take = (key: Buffer, session: number): boolean =>
    file.store.transaction(() => file.store.sshKeys.takeSession(key, Buffer.alloc(32, session), 3));
  assert.ok(take(other, 100));
  for (const session of [1, 2, 3]) assert.ok(take(one, session));
  assert.deepEqual([take(one, 1), take(other, 1)], [false, false]);
  file.reopen();
  assert.equal(take(one, 1), false);
  assert.ok(take(one, 4));
  assert.deepEqual([take(one, 2), take(one, 3), take(other, 100)], [false, false, false]);
  assert.ok(take(one, 1));
});
