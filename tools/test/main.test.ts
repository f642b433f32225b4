/**
 * The runner itself, on projects of its own with little test files: which of them it runs again, and what it says of them.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { filesFor } from './as-user.ts';
import { besides, filesOnVms, whole } from './on-vm.ts';
import { inTurns } from './suites.ts';

const root = join(import.meta.dirname, '../..');

/** What each file begins with: its marks lie in the home, which each user has for himself. */
const preamble = `import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
const mark = (name) => join(homedir(), name);
`;

const failsOnce = `${preamble}test('one', () => {});
test('two', () => {
  const isSecond = existsSync(mark('failed'));
  console.log(isSecond ? 'output of the second run' : 'output of the first run');
  writeFileSync(mark('failed'), '');
  assert.ok(isSecond, 'what failed at first');
});
`;

const failsTwice = `${preamble}test('bad', () => {
  const isSecond = existsSync(mark('bad'));
  writeFileSync(mark('bad'), '');
  console.log(isSecond ? 'output of the second run' : 'output of the first run');
  assert.fail(isSecond ? 'second failure' : 'first failure');
});
`;

/** A project with the runner and these end-to-end tests, open to every user. A minute of its limits lasts half a second. */
class Project implements Disposable {
  /** Of its runs, beside what they need. */
  readonly environment: Record<string, string> = {};
  readonly #directory = mkdtempSync(join(tmpdir(), 'squash-runner-'));

  /** @param layers stands where `tests/support/clients-layer.ts` is */
  constructor(tests: Readonly<Record<string, string>>, layers?: string) {
    chmodSync(this.#directory, 0o755);
    const program = join(this.#directory, '.cache/node/bin/node');
    mkdirSync(dirname(program), { recursive: true });
    if (spawnSync('cp', ['-lL', process.execPath, program]).status !== 0) cpSync(process.execPath, program);
    for (const folder of ['tools/test', 'tests/support', 'package.json']) {
      cpSync(join(root, folder), join(this.#directory, folder), {
        recursive: true,
        filter: (path) => !path.endsWith('.test.ts'),
      });
    }
    if (layers !== undefined) writeFileSync(join(this.#directory, 'tests/support/clients-layer.ts'), layers);
    const suites = join(this.#directory, 'tools/test/suites.ts');
    const text = readFileSync(suites, 'utf8');
    assert.match(text, /const minute = 60_000;/);
    writeFileSync(suites, text.replace('const minute = 60_000;', 'const minute = 500;'));
    for (const [name, source] of Object.entries(tests)) {
      const path = join(this.#directory, 'tests', `${name}.test.ts`);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, source);
    }
  }

  run(...args: readonly string[]) {
    const home = join(this.#directory, 'home');
    mkdirSync(home, { recursive: true });
    const env = { HOME: home, PATH: process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin' };
    const program = join(this.#directory, '.cache/node/bin/node');
    const { status, stdout, stderr } = spawnSync(
      program,
      [join(this.#directory, 'tools/test/main.ts'), ...args],
      { encoding: 'utf8', env: { ...env, ...this.environment } },
    );
    assert.equal(stderr, '');
    const end = stdout.slice(stdout.indexOf('\ntotal time'));
    return { status, stdout, end, lastLine: stdout.trimEnd().split('\n').at(-1) };
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

test('squash test is green and names a file flaky, with both outputs, when it fails once and then passes alone', () => {
  // Its neighbour goes on for a while after the failure.
  const slow = `${preamble}test('slow', async () => {
  while (!existsSync(mark('failed'))) await delay(5);
  await delay(500);
  writeFileSync(mark('slow ended'), '');
});
`;
  const alone = failsOnce.replace(
    'const isSecond',
    "if (existsSync(mark('failed'))) assert.ok(existsSync(mark('slow ended')), 'not alone');\n  const isSecond",
  );
  using project = new Project({ 'e2e/fails-once': alone, 'e2e/slow': slow });
  const { status, stdout, end, lastLine } = project.run('--only', 'e2e');
  assert.equal(lastLine, '3 passed, 0 failed, 0 skipped', stdout);
  assert.equal(status, 0);
  assert.match(
    end,
    /^flaky tests\/e2e\/fails-once\.test\.ts.*\n(?: .*\n)*.*what failed at first(?:\n .*)*output of the first run(?:\n .*)*output of the second run/m,
  );
  assert.doesNotMatch(end, /slow\.test/);
});

test('squash test fails with both outputs when a file fails twice', () => {
  using project = new Project({ 'e2e/fails-twice': failsTwice, 'e2e/fails-once': failsOnce });
  const { status, stdout, end, lastLine } = project.run('--only', 'e2e');
  assert.equal(lastLine, '2 passed, 1 failed, 0 skipped', stdout);
  assert.equal(status, 1);
  assert.match(
    stdout,
    /first failure[^]*output of the first run[^]*second failure[^]*output of the second run/,
  );
  assert.deepEqual(end.match(/^flaky .*?\.test\.ts/gm), ['flaky tests/e2e/fails-once.test.ts']);
});

test('squash test runs a file again that was ended for its time', () => {
  const hangsOnce = `${preamble}test('hangs', async () => {
  const isSecond = existsSync(mark('hung'));
  writeFileSync(mark('hung'), '');
  if (!isSecond) await delay(60_000);
});
`;
  using project = new Project({ 'e2e/hangs-once': hangsOnce });
  const { status, stdout, end, lastLine } = project.run('--only', 'e2e');
  assert.equal(lastLine, '1 passed, 0 failed, 0 skipped', stdout);
  assert.equal(status, 0);
  assert.match(end, /^flaky tests\/e2e\/hangs-once\.test\.ts.*\n(?: .*\n)*.*ended after 5 s/m);
});

test('squash test runs a file that loads the machine when no other runs', () => {
  const slow = `${preamble}test('slow', async () => {
  await delay(500);
  writeFileSync(mark('slow ended'), '');
});
`;
  const heavy = `${preamble}test('heavy', () => assert.ok(existsSync(mark('slow ended'))));\n`;
  using project = new Project({ 'egress/floods': heavy, 'egress/slow': slow });
  const { stdout, end, lastLine } = project.run('--only', 'egress');
  assert.equal(lastLine, '2 passed, 0 failed, 0 skipped', stdout);
  assert.doesNotMatch(end, /flaky/);
});

test('squash test builds the layers that a file asks for before its time begins, and says so', () => {
  const layers = `${preamble}export async function interpreterModules(say) {
  if (existsSync(mark('built'))) return {};
  say?.('interpreter', 'unpacking');
  await delay(3_500);
  writeFileSync(mark('built'), '');
  return {};
}
`;
  const source = `${preamble}import { interpreterModules } from '../support/clients-layer.ts';
test('has its layers', async () => assert.deepEqual(await interpreterModules(), {}));
`;
  using project = new Project({ 'e2e/layers': source }, layers);
  const { stdout, end, lastLine } = project.run('--only', 'e2e');
  assert.equal(lastLine, '1 passed, 0 failed, 0 skipped', stdout);
  assert.match(stdout, /layer interpreter: unpacking\n  layers built in [3-9]/);
  assert.doesNotMatch(end, /flaky/);
  assert.doesNotMatch(project.run('--only', 'e2e').stdout, /layers? /);
});

test('squash test runs files again with microVMs where they are asked for, with leave to skip what differs there', () => {
  const layers = 'export async function vmModule() { return {}; }\n';
  const source = `${preamble}const isOnVms = process.env['TEST_BACKEND'] === 'vm';
test('is what it is', () => assert.equal(process.env['TEST_PATIENCE'], isOnVms ? '5' : undefined));
test('differs', { skip: 'a microVM differs' }, () => {});
`;
  using project = new Project({ 'e2e/differs': source }, layers);
  const { stdout, lastLine } = project.run('--only', 'on-vm', 'differs');
  assert.equal(lastLine, '1 passed, 0 failed, 1 skipped', stdout);
  assert.equal(project.run('--only', 'e2e', 'differs').lastLine, '1 passed, 1 failed, 0 skipped');
});

test('three turns of squash test have had all files, and a file that is named runs in each', () => {
  const ran = `import { test } from 'node:test';\ntest(String(process.env['TEST_TURN']), () => {});\n`;
  const names = [
    'microvm',
    ...inTurns.map((files) => files[0]?.replace(/^tests\/e2e\/|\.test\.ts$/g, '') ?? ''),
  ];
  using project = new Project(Object.fromEntries(names.map((name) => [`e2e/${name}`, ran])));
  const files = ['0', '1', '2'].map((turn): readonly string[] => {
    project.environment['TEST_TURN'] = turn;
    return project.run('--only', 'e2e', '--no-user').stdout.match(/e2e\/\S+(?=\.test)/g) ?? [];
  });
  assert.ok(files.every((each) => each.includes('e2e/microvm') && each.length === 2));
  assert.equal(new Set(files.flat()).size, names.length);
  assert.match(project.run('--only', 'e2e', '--no-user', 'e2e/').lastLine ?? '', /^4 passed/);
});

test('three turns have had all files that a user runs', () => {
  const before = process.env['TEST_TURN'];
  const filesIn = (turn: string | undefined): readonly string[] => {
    if (turn === undefined) delete process.env['TEST_TURN'];
    else process.env['TEST_TURN'] = turn;
    return filesFor({ withSubordinateIds: true }, false);
  };
  try {
    const turns = ['0', '1', '2'].map(filesIn);
    const all = filesIn(undefined);
    assert.ok(turns.every(({ length }) => length < all.length));
    assert.deepEqual(
      all.filter((file) => !turns.flat().includes(file)),
      [],
    );
  } finally {
    if (before === undefined) delete process.env['TEST_TURN'];
    else process.env['TEST_TURN'] = before;
  }
});

test('files that take turns are there', () => {
  for (const path of inTurns.flat()) assert.ok(existsSync(join(root, path)), path);
});

test('each file of the suites of sandboxes runs with microVMs, or is named with why it does not', () => {
  const named = [...whole, ...besides.flatMap(({ files }) => files)];
  const there = globSync(filesOnVms, { cwd: root });
  assert.ok(there.length > 150);
  assert.deepEqual(named.toSorted(), there.toSorted());
});

test('files that are chosen for ordinary users are there', () => {
  const text = readFileSync(join(root, 'tools/test/as-user.ts'), 'utf8');
  const files = [...text.matchAll(/'(tests\/.*)'/g)].map(([, path = '']) => path);
  assert.ok(files.length > 20);
  assert.deepEqual(
    files.filter((path) => !existsSync(join(root, path))),
    [],
  );
});

test('squash test says as which user a file was flaky', {
  skip: process.getuid?.() === 0 ? false : 'only root can run tests as another user',
}, () => {
  using project = new Project({ 'e2e/fails-once': failsOnce });
  const { status, stdout, end, lastLine } = project.run('--only', 'user', 'fails-once');
  assert.equal(lastLine, '4 passed, 0 failed, 0 skipped', stdout);
  assert.equal(status, 0);
  const [first, second, ...others] = end.match(/^flaky .*(?:\n .*)*/gm) ?? [];
  assert.deepEqual(others, []);
  for (const [report, name] of [
    [first, 'with subordinate ids'],
    [second, 'single-id mode'],
  ]) {
    assert.match(
      report ?? '',
      new RegExp(`^flaky .*${name}.*: tests/e2e/fails-once.test.ts[^]*the first run[^]*the second run`),
    );
  }
  assert.equal(stdout.match(/^\d+ passed, \d+ failed/gm)?.length, 1);
});
