/** A broken database is rebuilt from the disk, and the data lock admits one. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { snapshotLabelSchema } from '@squash/contract/ids';
import { chatCreateSchema, groupCreateSchema } from '@squash/contract/groups';
import { tierBodySchema } from '@squash/contract/tiers';
import { sandboxRow } from '../../../tests/support/store.ts';
import { lockDataDirectory } from './data-lock.ts';
import { repairDatabase } from './repair.ts';
import { volumeRowSchema } from './rows.ts';
import { writeSandboxFile } from './sandbox-file.ts';
import { Store } from './store.ts';

interface Data extends Disposable {
  readonly path: string;
  readonly database: string;
}

async function dataWith(ids: readonly string[]): Promise<Data> {
  const path = mkdtempSync(join(tmpdir(), 'squash-repair-'));
  for (const id of ids) {
    mkdirSync(join(path, 'sandboxes', id, '.meta'), { recursive: true });
    mkdirSync(join(path, 'sandboxes', id, 'snapshots'));
    mkdirSync(join(path, 'sandboxes', id, 'uppers', '1', 'data'), { recursive: true });
    await writeSandboxFile(join(path, 'sandboxes', id, '.meta', 'sandbox.json'), sandboxRow(id), []);
  }
  return {
    path,
    database: join(path, 'squash.db'),
    [Symbol.dispose]: () => rmSync(path, { recursive: true }),
  };
}

function withStore<T>(path: string, body: (store: Store) => T): T {
  using store = new Store(path);
  return body(store);
}

test('a database that is no database is put aside and rebuilt from the directories', async () => {
  using data = await dataWith(['one', 'two']);
  writeFileSync(join(data.path, 'sandboxes', 'one', 'snapshots', 'late.squashfs'), 'hsqs');
  writeFileSync(data.database, 'garbage');
  const report = await repairDatabase(data.path, Date.now());
  assert.deepEqual(report.sandboxes, ['one', 'two']);
  assert.equal(readFileSync(report.keptAside ?? '', 'utf8'), 'garbage');
  withStore(data.database, (store) => {
    assert.deepEqual(
      store.sandboxes.all().map(({ id, phase }) => [id, phase]),
      [
        ['one', 'ready'],
        ['two', 'ready'],
      ],
    );
    const [found, other] = store.sandboxes.all();
    // Their files are of a version without labels.
    assert.deepEqual([found?.hostLabel, other?.hostLabel], ['one', 'two']);
    assert.ok(found);
    const snapshots = store.sandboxes.snapshots(found.id);
    assert.deepEqual(
      snapshots.map(({ label, size }) => [label, size]),
      [['late', 4]],
    );
    // Numbers that the lost log may have used are not used again.
    assert.ok(found.nextSeq > 1);
    assert.ok(store.transaction(() => store.sandboxes.nextInstance()) > 1_000);
  });
});

test('commands are saved out of a database whose other tables are broken', async () => {
  using data = await dataWith(['one']);
  const row = sandboxRow('one');
  withStore(data.database, (store) => {
    store.transaction(() => store.sandboxes.insert(row));
    for (let count = 0; count < 30; count += 1) {
      store.transaction(() => {
        const exec = store.execs.begin(row.id, {
          kind: count % 2 === 0 ? 'exec' : 'job',
          cmd: `echo ${count}`,
          workdir: '/',
          timeoutMs: undefined,
          startedMs: count,
          instance: 1,
        });
        if (exec.kind === 'exec') store.output.append(exec.key, 'stdout', Buffer.from(`${count}\n`));
        else store.output.appendLine(exec.key, { number: 1, stream: 'stderr', data: Buffer.from('l\n') });
      });
    }
    store.transaction(() =>
      store.sandboxes.insertSnapshot(row.id, {
        label: snapshotLabelSchema.parse('gone'),
        createdMs: 1,
        size: 1,
        digest: null,
        base: null,
        layers: [],
        labels: {},
        memory: null,
      }),
    );
  });
  // The row of the sandbox itself can't be understood any more.
  const database = new DatabaseSync(data.database);
  database.exec(`UPDATE sandboxes SET limits = 'no json'`);
  database.close();
  const report = await repairDatabase(data.path, Date.now());
  assert.deepEqual(report.sandboxes, ['one']);
  assert.notEqual(report.keptAside, undefined);
  withStore(data.database, (store) => {
    assert.equal(store.execs.unfinished(row.id).length, report.execs);
    for (const exec of store.execs.unfinished(row.id)) assert.equal(exec.cmd, `echo ${exec.seq - 1}`);
  });
});

test('a repair leaves a database of a later version as it is, and makes none anew where that fails', async () => {
  using data = await dataWith(['one']);
  withStore(data.database, (store) => store.transaction(() => store.sandboxes.insert(sandboxRow('one'))));
  const database = new DatabaseSync(data.database);
  database.exec('PRAGMA user_version = 999');
  database.close();
  const names = readdirSync(data.path);
  await assert.rejects(repairDatabase(data.path, Date.now()), { code: 'database_newer' });
  assert.deepEqual(readdirSync(data.path), names);
});

test('a sound database keeps what it has and takes in a directory that it does not know', async () => {
  using data = await dataWith(['one', 'two']);
  withStore(data.database, (store) => store.transaction(() => store.sandboxes.insert(sandboxRow('one'))));
  mkdirSync(join(data.path, 'sandboxes', 'strange'));
  const report = await repairDatabase(data.path, Date.now());
  assert.equal(report.keptAside, undefined);
  assert.deepEqual(report.sandboxes, ['two']);
  assert.match(report.problems.join(), /strange/);
  assert.deepEqual((await repairDatabase(data.path, Date.now())).sandboxes, []);
});

interface Kept {
  readonly chats: readonly string[];
  readonly runs: readonly (string | null)[];
  readonly held: number;
}

/** A group of a tier, with a chat, a run that has begun, an action that waits, and a folder. */
function withGroups(path: string): void {
  withStore(path, ({ groups }) => {
    const body = groupCreateSchema.parse({ name: 'g', tier: 'own', command: ['cat'] });
    const tier = tierBodySchema.parse({
      message: { own: 'allow', others: 'hold' },
      start: { own: 'allow', others: 'deny' },
      read: { own: 'allow', others: 'deny' },
      create: 'deny',
      create_tiers: [],
      reach: [],
      secrets: [],
    });
    groups.transaction(() => {
      groups.putTier({ name: 'own', body: tier });
      groups.insertGroup({ body, createdMs: 1, createdBy: null });
      groups.insertGroup({ body: { ...body, name: 'h' }, createdMs: 1, createdBy: null });
      for (const group of ['g', 'h']) {
        groups.insertChat({ body: chatCreateSchema.parse({ name: group, group }), createdMs: 1 });
        const run = groups.insertRun({
          ...runOfChat(group),
          state: 'running',
          hasBegun: true,
        });
        const request = { id: 'a', action: 'message.send', chat: 'x', text: 'y' } as const;
        const asked = { group, run, request, state: 'held', rule: 'r', reason: null } as const;
        groups.insertAction({ ...asked, askedMs: 1, decidedMs: null });
      }
    });
  });
}

function runOfChat(group: string): Parameters<Store['groups']['insertRun']>[0] {
  return {
    group,
    chat: group,
    state: 'queued',
    attempt: 1,
    notBeforeMs: 0,
    reason: null,
    exitCode: null,
    sandbox: 'gone',
    isWarm: false,
    warmUntilMs: null,
    hasBegun: false,
    hasActed: false,
    position: 0,
    outputBytes: 0,
    isTruncated: false,
    depth: 0,
    isIsolated: false,
    createdMs: 1,
    startedMs: 1,
    finishedMs: null,
  };
}

function keptIn(path: string, group: string): Kept {
  return withStore(path, ({ groups }) => ({
    chats: groups.chats().map(({ body }) => body.name),
    runs: groups.runsOf(group, 10).map(({ state }) => state),
    held: groups.countHeld(group),
  }));
}

function change(path: string, sql: string): void {
  const database = new DatabaseSync(path, { enableForeignKeyConstraints: false });
  database.exec(sql);
  database.close();
}

test('groups are saved out of a broken database; what had begun is not run again', async () => {
  using data = await dataWith(['one']);
  withStore(data.database, (store) => store.transaction(() => store.sandboxes.insert(sandboxRow('one'))));
  withGroups(data.database);
  change(data.database, `UPDATE sandboxes SET limits = 'no json'; DELETE FROM groups WHERE name = 'h'`);
  const report = await repairDatabase(data.path, Date.now());
  assert.notEqual(report.keptAside, undefined);
  assert.match(report.problems.join('\n'), /chats: 1 rows were left out/);
  assert.deepEqual(keptIn(data.database, 'g'), { chats: ['g'], runs: ['failed'], held: 1 });
  withStore(data.database, ({ groups }) => {
    const [run] = groups.openRuns();
    // Its sandbox, where there is one, is removed by the daemon.
    assert.match(run?.reason ?? '', /repaired/);
    assert.ok(groups.insertRun(runOfChat('g')) > 1_000);
  });
});

test('no group gets the folder of one that a lost database had', async () => {
  using data = await dataWith([]);
  const id = `vol_${'a'.repeat(16)}`;
  mkdirSync(join(data.path, 'volumes', id), { recursive: true });
  withStore(data.database, (store) =>
    store.transaction(() =>
      store.volumes.insert(
        volumeRowSchema.parse({
          id,
          owner: 'anon',
          name: 'group-7',
          labels: {},
          kind: 'directory',
          bytesMax: null,
          snapshotOf: null,
          createdMs: 1,
          phase: 'ready',
        }),
      ),
    ),
  );
  await repairDatabase(data.path, Date.now());
  withStore(data.database, ({ groups }) => {
    const body = groupCreateSchema.parse({ name: 'new', tier: 'untrusted', command: ['cat'] });
    groups.insertGroup({ body, createdMs: 1, createdBy: null });
    assert.equal(groups.group('new')?.key, 8);
  });
});

test('rows of groups in a sound database that can not be understood, or have lost what they are of, hold up no other', async () => {
  using data = await dataWith([]);
  withGroups(data.database);
  change(
    data.database,
    `UPDATE groups SET volume = 'vol_gone' WHERE name = 'g'; DELETE FROM group_tiers;
      UPDATE groups SET body = 'no json' WHERE name = 'h'; INSERT INTO chats VALUES ('lost', 'nobody', '{}', 1, NULL);
      UPDATE group_actions SET request = '{"action":"unknown"}' WHERE grp = 'g'`,
  );
  const report = await repairDatabase(data.path, Date.now());
  assert.equal(report.keptAside, undefined);
  assert.equal(
    report.problems.filter((each) => /^group|^chats/.test(each)).length,
    5,
    report.problems.join('\n'),
  );
  assert.deepEqual(keptIn(data.database, 'g'), { chats: ['g'], runs: ['running'], held: 0 });
  withStore(data.database, ({ groups }) => {
    assert.deepEqual(
      groups.groups().map(({ body, volume }) => [body.name, body.tier, volume]),
      [['g', 'untrusted', null]],
    );
  });
  assert.deepEqual((await repairDatabase(data.path, Date.now())).problems, []);
});

test('a data directory is locked for one holder and free again after it', async () => {
  using data = await dataWith([]);
  const held = lockDataDirectory(data.path);
  assert.throws(() => lockDataDirectory(data.path), { code: 'data_locked' });
  held[Symbol.dispose]();
  lockDataDirectory(data.path)[Symbol.dispose]();
});
