/**
 * What the host that runs the tests may not have: cgroup v2, project quotas, Landlock. The same files of the suites run in
 * the guest; emulation takes ten times as long, so a spread of them, and with `--long` all that they hold.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { baseLayer, repository } from '../support/base-layer.ts';
import { attackTool, smallTool, toolCache } from '../security/tool.ts';
import { bootGuest, type GuestMachine } from './guest.ts';

interface HostFile {
  readonly file: string;
  /** Tests that this pattern finds, unless all are wanted; a file that runs itself inside a launcher has two levels of them. */
  readonly only?: string;
  /** Tests that need a later kernel than the guest's. */
  readonly without?: string;
  /** What depends little on the guest is not worth its minutes in each run. */
  readonly isLongOnly?: true;
  /** Every so manieth attempt, or repetition. */
  readonly every?: number;
}

const isLong = process.env['TEST_LONG'] === '1';
const asRoot = 'launcher .default.';
const allFiles: readonly HostFile[] = [
  { file: 'host/src/drivers/namespace/uppers.test.ts', only: `${asRoot}|^project upper` },
  { file: 'tests/faults/overcommitted-disk.test.ts', only: 'project', every: 12 },
  {
    file: 'host/src/launch/launch-client.test.ts',
    only: `${asRoot}|limited|processor time|out-of-memory|frozen`,
  },
  { file: 'tests/security/attacks.test.ts', every: 80 },
  { file: 'tests/security/upper-evasion.test.ts', only: `${asRoot}|stops whoever` },
  { file: 'tests/security/devices.test.ts' },
  { file: 'tests/security/counted.test.ts' },
  { file: 'tests/security/own-files.test.ts', only: 'hijacked daemon' },
  // Linux 6.1 has no maps of tmpfs.
  { file: 'tests/security/own-ids.test.ts', only: '^pipes', without: 'tmpfs|full disk' },
  { file: 'tests/security/host-processes.test.ts', isLongOnly: true },
  { file: 'tests/security/compromised-daemon.test.ts', isLongOnly: true },
];
const files = allFiles.filter(({ isLongOnly }) => isLong || isLongOnly === undefined);
const fileMsMax = isLong ? 1_800_000 : 600_000;

const stack = new AsyncDisposableStack();
let vm: GuestMachine;

before(async () => {
  await promisify(execFile)(join(repository, 'tools/setup/setup.sh'), ['native']);
  await Promise.all([attackTool(), smallTool('evader'), smallTool('counted')]);
  const layer = await baseLayer();
  const contents = {
    files: { [basename(layer)]: layer, ...(await tools()) },
    programs: files.map(({ file }) => file),
  };
  vm = stack.use(await bootGuest(contents));
  // Tests keep what they compile beside the project, whose disk is read-only.
  await vm.output(
    `mkdir -p /var/tmp/upper /var/tmp/work; mount -t overlay -o lowerdir=/opt/squash,upperdir=/var/tmp/upper,workdir=/var/tmp/work none /opt/squash
     cd /opt/squash/.cache; mkdir -p test-layers attack; cp ../vm/${basename(layer)} test-layers/
     for name in ../vm/tool.*; do IFS=. ; set -- \${name##*/tool.}; unset IFS; mkdir -p attack/$1; install -m 755 $name attack/$1/\${name##*/tool.$1.}; done`,
  );
});

after(() => stack.disposeAsync());

/** Compiled here, for the guest has no compiler: `tool.<hash>.<name>`. */
async function tools(): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const folder of (await readdir(toolCache)).filter((name) => /^[0-9a-f]{16}$/.test(name)))
    for (const name of await readdir(join(toolCache, folder)))
      found[`tool.${folder}.${name}`] = join(toolCache, folder, name);
  return found;
}

for (const { file, only, without, every } of files) {
  test(`the guest passes ${file}`, async (context) => {
    const flags = [
      ...(only === undefined || isLong ? [] : [`--test-name-pattern="${only}"`]),
      ...(without === undefined ? [] : [`--test-skip-pattern="${without}"`]),
    ];
    const pattern = `NODE_OPTIONS='${flags.join(' ')}'`;
    const spread = `TEST_PATIENCE=10 ATTEMPTS_EVERY=${isLong ? 1 : (every ?? 1)}`;
    const command = `cd /opt/squash && ${spread} ${pattern} node --test --test-reporter=tap ${file}`;
    const result = await vm.run(command, { timeoutMs: fileMsMax });
    const count = (what: string): number =>
      Number(new RegExp(`^# ${what} ([\\d.]+)$`, 'm').exec(result.stdout)?.[1]);
    assert.equal(result.exitCode, 0, result.stdout.slice(-12_000) + result.stderr.slice(-4_000));
    assert.ok(count('pass') > 0 && count('skipped') === 0, result.stdout.slice(-12_000));
    context.diagnostic(`${count('pass')} tests in ${Math.round(count('duration_ms') / 1_000)} s`);
  });
}
