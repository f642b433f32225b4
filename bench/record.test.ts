/** A run that ends early has lost nothing; a run of one scenario leaves the others, and says whose they are. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ScenarioId } from './options.ts';
import { RunRecord } from './record.ts';
import type { Measured, RunFacts } from './state.ts';

const earlier = runAt('2026-01-02T03:04:05.000Z', 'aaaaaaa');
const later = runAt('2026-01-03T03:04:05.000Z', 'bbbbbbb');

test('page and state have a scenario as soon as it is measured', async (context) => {
  const files = place(context);
  const record = await files.open();
  await record.add(measured('exec', earlier, 1));
  assert.match(files.page(), /\| Squash, HTTP keep-alive +\| 1\.00 \| +1\.00 \| 1\.00 \|/);
  assert.match(
    files.page(),
    /\| `exec true` over HTTP, keep-alive, p50 +\| +≤ 1\.50 S \| +0\.500 S \| +pass \|/,
  );
  assert.match(files.page(), /\| create \(two layers\), p50 +\| +≤ 6\.00 S \| +\| +not measured \|/);
  assert.equal(JSON.parse(files.state()).measured.length, 1);
  assert.deepEqual(readdirSync(files.directory).sort(), ['page.md', 'state.json']);
});

test('a later run replaces its own scenario and leaves the others with the run they come from', async (context) => {
  const files = place(context);
  const whole = await files.open();
  for (const id of ['create', 'exec'] as const) await whole.add(measured(id, earlier, 1));
  const before = files.page();
  assert.ok(!before.includes('These figures are of the run'), before);

  await (await files.open()).add(measured('exec', later, 9));
  const page = files.page();
  assert.ok(
    page.indexOf('## exec') < page.indexOf('## create'),
    'the order is the page’s, not that of measuring',
  );
  const [, exec = '', create = ''] = page.split(/^## (?:exec|create)$/m);
  assert.match(exec, /\| 9\.00 \|/);
  assert.ok(!exec.includes('aaaaaaa'), exec);
  assert.match(create, /These figures are of the run of 2026-01-02 03:04 UTC, commit aaaaaaa\./);
  assert.match(create, /\| 1\.00 \|/);
  assert.match(page, /p50 +\| +≤ 1\.50 S \| +4\.50 S \| +FAIL \|/);
  assert.match(
    page,
    /≤ 6\.00 S \| +0\.500 S \| +pass, of the run of 2026-01-02 03:04 UTC, commit aaaaaaa \|/,
  );
  const runs = page.split('\n').filter((line) => line.startsWith('- Run of'));
  assert.deepEqual(
    runs.map((line) => /commit (\w+), \d+ s: ([\w, ]+)\./.exec(line)?.slice(1)),
    [
      ['bbbbbbb', 'exec'],
      ['aaaaaaa', 'create'],
    ],
  );
});

test('a run of some scenarios refuses a page whose others no earlier run has kept', async (context) => {
  const files = place(context);
  const some = { ...files.options, isWhole: false };
  await (await RunRecord.open(some)).add(measured('exec', earlier, 1));
  await RunRecord.open(some);
  rmSync(files.options.statePath);
  await assert.rejects(RunRecord.open(some), /would lose its other scenarios/);
  await files.open();
});

test('a run goes on where it was when its commit is the same, and begins anew when it is not', async (context) => {
  const files = place(context);
  const broken = await files.open();
  await broken.add(measured('cli', earlier, 1));
  await broken.add(measured('exec', later, 1));

  const other = await files.open();
  assert.deepEqual([...other.resume('aaaaaaa')], []);
  assert.equal(other.resumed, undefined);

  const same = await files.open();
  assert.deepEqual([...same.resume('bbbbbbb')], ['exec']);
  assert.equal(same.resumed?.startedAt, later.startedAt);
  await same.add(measured('create', later, 1));
  assert.deepEqual(
    same.measured.map(({ result }) => result.id),
    ['exec', 'create'],
  );
  assert.match(files.page(), /^- Run of 2026-01-03 .*: exec, create\./m);
});

test('a quick run shows only itself and takes the place of nothing', async (context) => {
  const files = place(context);
  await (await files.open()).add(measured('exec', earlier, 1));
  const state = files.state();
  const quick = await RunRecord.open({ ...files.options, keeps: false });
  await quick.add(measured('create', { ...later, quick: true }, 1));
  assert.equal(files.state(), state);
  assert.ok(!files.page().includes('## exec'));
  assert.match(files.page(), /\*\*quick: few samples\*\*/);
});

test('a state of another version counts as none', async (context) => {
  const files = place(context);
  writeFileSync(files.options.statePath, '{"commit":"aaaaaaa","quick":false,"scenarios":[]}');
  const record = await files.open();
  assert.deepEqual([...record.resume('aaaaaaa')], []);
  await record.add(measured('exec', later, 1));
  assert.equal(JSON.parse(files.state()).version, 2);
});

function place(context: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'squash-record-'));
  context.after(() => rmSync(directory, { recursive: true }));
  const options = {
    statePath: join(directory, 'state.json'),
    pagePath: join(directory, 'page.md'),
    notes: '',
    keeps: true,
    isWhole: true,
  };
  return {
    directory,
    options,
    open: async () => await RunRecord.open(options),
    page: () => readFileSync(options.pagePath, 'utf8'),
    state: () => readFileSync(options.statePath, 'utf8'),
  };
}

function runAt(startedAt: string, commit: string): RunFacts {
  return {
    startedAt,
    commit,
    cpu: 'processor',
    cores: 2,
    memoryGb: 4,
    kernel: '6.1',
    system: 'system',
    node: 'v24.0.0',
    user: 'root',
    cgroups: 'v2',
    fileSystem: 'ext4',
    quick: false,
    peerNotes: ['peer: of one version'],
  };
}

/** One sample of `ms`, where a bare spawn takes 2. */
function measured(id: ScenarioId & ('exec' | 'create' | 'cli'), run: RunFacts, ms: number): Measured {
  const subject = id === 'exec' ? 'Squash, HTTP keep-alive' : 'Squash';
  return {
    run,
    result: {
      id,
      title: id,
      about: 'what is timed',
      metrics: [{ id, title: id, unit: 'ms' }],
      spawnMs: [2],
      results: [{ subject, metric: id, samples: [ms] }],
      absent: [],
      seconds: 3,
    },
  };
}
