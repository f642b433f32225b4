/**
 * Every attempt of `box/` again, by who is root of a user namespace of his own in a box that lets its programs make them, with mounts of his own;
 * and those that only he has. What stands below as given is what such a namespace is for.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { squash, startCli } from '../support/cli.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';
import { type AttemptOutput, outcomeOf } from './attempt.ts';
import { boxWords, drive, harmOf } from './box/drive.ts';
import { layScripts, readOutputs } from './box/driver.ts';
import { fileAttempts } from './box/files.ts';
import { LaidGround } from './box/ground.ts';
import { nestedAttempts } from './box/nested.ts';
import { outsideAttempts } from './box/outside.ts';
import { BoxScene } from './box/scene.ts';

/** What he is given: namespaces, his rights in them, mounts that show him what he sees already, and to be refused by the kernel itself. */
const given: ReadonlySet<string> = new Set([
  ...['user', 'mnt', 'net', 'pid', 'uts', 'ipc', 'cgroup'].map((kind) => `unshare-${kind}`),
  ...['user', 'mnt', 'net'].map((kind) => `clone-${kind}`),
  ...['tmpfs', 'devpts', 'overlay'].map((type) => `mount-${type}`),
  'capabilities',
  'map-ids',
  'bind-of-parent',
  'umount-etc',
  'pivot-root',
]);
const again = [...outsideAttempts, ...fileAttempts].filter(({ id }) => !given.has(id));
const every = [...again, ...nestedAttempts];
const isRoot = process.getuid?.() === 0;

describe('a box with nesting', { skip: isRoot ? 'only an ordinary user has boxes' : false }, () => {
  const { homedir } = userInfo();
  const stack = new AsyncDisposableStack();
  let scene: BoxScene;
  let inBox: LaidGround;
  let onHost: LaidGround;
  let outputs: ReadonlyMap<string, AttemptOutput>;
  let controls: ReadonlyMap<string, AttemptOutput>;
  let harmed: ReadonlySet<string>;
  let controlsHarmed: ReadonlySet<string>;

  before(async () => {
    if (isRoot) return;
    scene = stack.use(await BoxScene.start());
    const { outside, secret } = scene;
    const work = mkdtempSync(join(homedir, 'squash-box-test-'));
    const elsewhere = mkdtempSync(join(homedir, 'squash-box-test-'));
    stack.defer(() => rmSync(elsewhere, { recursive: true, force: true }));
    inBox = stack.use(new LaidGround(outside, { home: homedir, work, secret }));
    onHost = stack.use(new LaidGround(outside, { home: elsewhere, work: join(elsewhere, 'work'), secret }));
    const tools = join(work, 'tools');
    mkdirSync(tools);
    copyFileSync(outside.tool, join(tools, 'attack'));
    const words = layScripts(
      tools,
      'nested',
      every.map(({ id, run }) => ({ id, text: run(inBox.ground), inNamespace: true })),
    );
    const control = layScripts(
      tools,
      'control',
      nestedAttempts.flatMap(({ id, run, control }) =>
        control.kind === 'none' ? [] : [{ id, text: (control.run ?? run)(onHost.ground), inNamespace: true }],
      ),
    );
    const rules = ['box', 'run', '--keep', '--nesting', '--name', 'nested', ...boxWords(inBox.ground, tools)];
    const text = await drive(
      startCli(undefined, [...rules, '--', ...words], { cwd: inBox.ground.project, env: scene.env }),
      () => inBox.layLater(secret),
      async () => {
        harmed = harmOf(inBox.ground, every);
        const [shell = 'sh', ...rest] = control;
        const child = spawn(shell, rest, {
          cwd: elsewhere,
          env: { ...process.env, ...scene.env, HOME: elsewhere, LD_LIBRARY_PATH: '', NODE_OPTIONS: '' },
        });
        const nothing = async (): Promise<void> => {};
        controls = readOutputs(await drive(child, () => {}, nothing));
        controlsHarmed = harmOf(onHost.ground, nestedAttempts);
      },
    );
    outputs = readOutputs(text);
  });

  after(async () => {
    if (isRoot) return;
    await squash(undefined, ['box', 'rm', 'nested'], { cwd: homedir, env: scene.env });
    await waitFor('the daemon to end', () => processesOf(scene.outside.dataDir).length === 0, 60_000);
    await stack.disposeAsync();
  });

  for (const { id, run, control } of every) {
    it(`holds when ${id} is tried`, () => {
      const script = run(inBox.ground);
      const output = outputs.get(id);
      assert.ok(output !== undefined, 'it was not tried');
      const outcome = outcomeOf(script, output, scene.secrets);
      const isUntried = outcome === 'untried' && control.kind !== 'none' && control.optional !== undefined;
      assert.ok(
        outcome === 'held' || isUntried,
        `${outcome}, exit ${output.exitCode}\n${script}\n${output.stdout}`,
      );
      assert.ok(!harmed.has(id), `the host’s file has changed\n${script}`);
    });
  }

  for (const { id, run, control } of nestedAttempts) {
    if (control.kind === 'none') continue;
    it(`is what keeps ${id} from success`, (context) => {
      const output = controls.get(id);
      assert.ok(output !== undefined, 'it was not tried');
      const outcome = outcomeOf(run(onHost.ground), output, scene.secrets);
      if (outcome === 'breach' || controlsHarmed.has(id)) return;
      if (control.optional === undefined || outcome === 'broken')
        assert.fail(`${outcome}, exit ${output.exitCode}\n${output.stdout}`);
      context.diagnostic(
        `no proof on this machine: ${control.optional}: ${output.stdout.slice(-200).trim()}`,
      );
    });
  }

  it('leaves nothing outside harmed', async () => {
    assert.deepEqual(await scene.host.harm(), []);
  });
});
