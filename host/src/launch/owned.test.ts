/**
 * What a compromised daemon prepares in its directories for the next start as root. Each attempt is made by files of the
 * daemon's id in the data directory and nothing else.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository } from '../../../tests/support/base-layer.ts';
import { removeDataDirectory } from '../../../tests/support/data-directory.ts';
import { expectNoLeaks, startTicksOf } from '../../../tests/support/leaks.ts';
import { ownedPrefix } from '../../../tests/support/owned-directory.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
const program = join(repository, 'native/build', architecture, 'squash-launch');
const daemonId = 0x70_00_00_00;
const asRoot = { skip: process.getuid?.() === 0 ? false : 'only root has something to lose' };

/** A data directory that belongs to the daemon already, and a directory of root's beside it. */
class Scene implements AsyncDisposable {
  readonly parent = mkdtempSync(join('/tmp', ownedPrefix('owned')));
  readonly data = join(this.parent, 'data');
  readonly victim = join(this.parent, 'victim');
  readonly children: ChildProcess[] = [];

  constructor() {
    execFileSync('chmod', ['755', this.parent]);
    for (const path of [this.data, this.victim]) mkdirSync(path);
    writeFileSync(join(this.victim, 'settings'), '');
    this.own(this.data);
  }

  own(path: string): void {
    chownSync(path, daemonId, daemonId);
  }

  enter(run = join(this.data, 'run'), command: readonly string[] = ['true']): string {
    const words = ['enter', '--data', this.data, '--run', run, '--app', repository, '--', ...command];
    return execFileSync(program, words, { encoding: 'utf8', stdio: 'pipe' });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.children) child.kill('SIGKILL');
    try {
      await this.endLauncher();
      await expectNoLeaks(this.data);
    } finally {
      await removeDataDirectory(this.data);
      await rm(this.parent, { recursive: true });
    }
  }

  private async endLauncher(): Promise<void> {
    const pids = execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line.includes(`squash-launch resident ${this.data}`))
      .map((line) => Number.parseInt(line, 10));
    for (const pid of pids) process.kill(pid, 'SIGTERM');
  }
}

function ownersOf(directory: string): readonly number[] {
  return [directory, join(directory, 'settings')].map((path) => statSync(path).uid);
}

test('a run directory that became a link gives away nothing of the host', asRoot, async () => {
  await using scene = new Scene();
  symlinkSync(scene.victim, join(scene.data, 'run'));
  assert.throws(() => scene.enter(), /no link and no mount/);
  assert.deepEqual(ownersOf(scene.victim), [0, 0]);
  // The same one step further up, and by another way to the same place.
  for (const run of [join(scene.data, 'run/deeper'), `${scene.data}/../data/run`]) {
    assert.throws(() => scene.enter(run), /squash-launch: /);
    assert.deepEqual(ownersOf(scene.victim), [0, 0]);
  }
});

test(
  'a run directory elsewhere is given away only where the daemon could not have put it',
  asRoot,
  async () => {
    await using scene = new Scene();
    const way = join(scene.parent, 'way');
    mkdirSync(way);
    scene.own(way);
    symlinkSync(scene.victim, join(way, 'run'));
    assert.throws(() => scene.enter(join(way, 'run')), /is not given away/);
    assert.deepEqual(ownersOf(scene.victim), [0, 0]);
  },
);

test('a record ends no process but a sandbox’s', asRoot, async () => {
  await using scene = new Scene();
  const records = join(scene.data, 'run/g');
  mkdirSync(records, { recursive: true });
  for (const path of [join(scene.data, 'run'), records]) scene.own(path);
  // One of the host's root, and one in a pid namespace of its own like a container's first process.
  const plain = spawn('sleep', ['600']);
  const contained = spawn('unshare', ['--pid', '--fork', '--kill-child', 'sleep', '600']);
  scene.children.push(plain, contained);
  const childOf = (pid = 0) => Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
  await waitFor('the contained process', () => childOf(contained.pid) > 0);
  const inner = childOf(contained.pid);
  for (const [index, pid] of [plain.pid ?? 0, inner].entries()) {
    const namespace = readlinkSync(`/proc/${pid}/ns/pid`).replaceAll(/\D/g, '');
    const path = join(records, `${index + 1}.pid`);
    writeFileSync(path, `${pid} ${startTicksOf(pid)} ${namespace}\n`);
    scene.own(path);
  }
  // Nobody writes into it: whoever opens it to read waits for ever.
  execFileSync('mkfifo', [join(records, '3.pid')]);
  scene.enter();
  assert.ok(
    startTicksOf(plain.pid ?? 0) !== undefined && plain.exitCode === null && plain.signalCode === null,
  );
  assert.ok(startTicksOf(inner) !== undefined);
});

test('records of a directory that is not the daemon’s are left alone', asRoot, async () => {
  await using scene = new Scene();
  mkdirSync(join(scene.data, 'run/g'), { recursive: true });
  scene.own(join(scene.data, 'run'));
  writeFileSync(join(scene.data, 'run/g/1.sock'), '');
  assert.throws(() => scene.enter(), /is not the daemon's/);
  assert.ok(statSync(join(scene.data, 'run/g/1.sock')).isFile());
});

test('an image that the daemon mounts over a name is not mounted for it', asRoot, async () => {
  await using scene = new Scene();
  const foreign = join(scene.victim, 'disk.img');
  mkdirSync(join(scene.data, 'run'));
  scene.own(join(scene.data, 'run'));
  execFileSync('truncate', ['-s', '16M', foreign]);
  execFileSync('mkfs.ext4', ['-q', foreign]);
  execFileSync('chmod', ['600', foreign]);
  const script = `
    import { execFileSync } from 'node:child_process';
    import { mkdirSync, writeFileSync } from 'node:fs';
    import { LaunchClient } from '${repository}/host/src/launch/launch-client.ts';
    const client = new LaunchClient('${scene.data}/run');
    mkdirSync('${scene.data}/sandboxes/dev/uppers', { recursive: true });
    writeFileSync('${scene.data}/sandboxes/dev/uppers/1.img', '');
    execFileSync('mount', ['--bind', '${foreign}', '${scene.data}/sandboxes/dev/uppers/1.img']);
    console.log(await client.upperUsage({ path: 'sandboxes/dev/uppers/1', kind: 'image' }).then(() => 'mounted', String));
  `;
  const said = scene.enter(undefined, [process.execPath, '--input-type=module-typescript', '-e', script]);
  assert.match(said, /is not one of the helper's/);
});
