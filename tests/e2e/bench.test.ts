/**
 * The benchmark runs, measures Squash, and leaves nothing behind. Its figures are not judged here: a test that
 * fails on a busy machine teaches people to ignore tests.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '../..');

interface BenchOutput {
  readonly measured: readonly {
    readonly result: {
      readonly id: string;
      readonly spawnMs: readonly number[];
      readonly results: readonly { readonly subject: string; readonly metric: string }[];
      readonly absent: readonly { readonly name: string; readonly absent: string }[];
    };
  }[];
  readonly budgets: readonly { readonly what: string; readonly outcome: string }[];
}

test('bench --quick measures every step of Squash and leaves nothing behind', async () => {
  const scratch = await mkdtemp(join(tmpdir(), 'bench-test-'));
  try {
    const only = 'exec,create,snapshot-1,memory';
    const output = await bench(['--quick', '--only', only, '--json'], scratch);
    assert.deepEqual(
      output.measured.map(({ result }) => result.id),
      only.split(','),
    );
    for (const { result: scenario } of output.measured) {
      const absent = scenario.absent.find(({ name }) => name.startsWith('Squash'));
      assert.equal(absent, undefined, `${scenario.id}: ${absent?.absent}`);
      assert.ok(scenario.spawnMs.length >= 20, `${scenario.id} has bare spawns to compare with`);
      const squash = scenario.results.filter(({ subject }) => subject.startsWith('Squash'));
      assert.notEqual(squash.length, 0, `${scenario.id} has rows of Squash`);
    }
    const judged = output.budgets.filter(({ outcome }) => outcome !== 'not measured');
    assert.equal(judged.length, 15, 'all budgets of these scenarios but burst and snapshot-10 are judged');
    assert.deepEqual(await readdir(scratch), [], 'the working directory is removed');
    assert.deepEqual(await mountsAndProcessesOf(scratch), [], 'no mount or process is left');
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
});

test('bench refuses an unknown scenario by name', async () => {
  const child = spawn(process.execPath, [join(root, 'bench/main.ts'), '--only', 'nothing'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const chunks: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk));
  const [code] = (await once(child, 'close')) as [number];
  assert.equal(code, 1);
  assert.match(
    Buffer.concat(chunks).toString(),
    /no scenario "nothing"; there are: exec, cells, cli, box, create/,
  );
});

async function bench(args: readonly string[], scratch: string): Promise<BenchOutput> {
  const child = spawn(process.execPath, [join(root, 'bench/main.ts'), ...args], {
    env: { ...process.env, TMPDIR: scratch },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  const [code] = (await once(child, 'close')) as [number];
  assert.equal(code, 0);
  return JSON.parse(Buffer.concat(chunks).toString()) as BenchOutput;
}

/** What still names the scratch directory: mounts, and processes with it in their arguments. */
async function mountsAndProcessesOf(scratch: string): Promise<string[]> {
  const found = (await readFile('/proc/self/mounts', 'utf8'))
    .split('\n')
    .filter((line) => line.includes(scratch));
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''); // It has ended.
    if (line.includes(scratch)) found.push(`${pid}: ${line.replaceAll('\0', ' ')}`);
  }
  return found;
}
