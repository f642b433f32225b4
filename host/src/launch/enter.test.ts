/** `squash-launch enter` from outside: who joins whom, what survives a killed launcher, where data may lie. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statfsSync } from 'node:fs';
import { chmod, chown, copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { buildSync } from 'esbuild';
import { baseLayer, repository } from '../../../tests/support/base-layer.ts';
import { removeDataDirectory } from '../../../tests/support/data-directory.ts';
import {
  baseCgroupsOf,
  cgroupName,
  cgroupsOf,
  expectNoLeaks,
  processes,
} from '../../../tests/support/leaks.ts';
import { ownedPrefix } from '../../../tests/support/owned-directory.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const run = promisify(execFile);
const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
const program = join(repository, 'native/build', architecture, 'squash-launch');

/** As `statfs` names it. */
const ext4 = 0xef53;

/** One file of JavaScript: from its sources each of the many scripts would strip their types for a second. */
const launchClient = buildSync({
  entryPoints: [join(repository, 'host/src/launch/launch-client.ts')],
  bundle: true,
  write: false,
  platform: 'node',
  format: 'esm',
}).outputFiles[0]?.text;

/** What every script inside begins with. */
const prelude = (dataDir: string): string => `
  import { LaunchClient } from '${dataDir}/launch-client.mjs';
  const client = new LaunchClient(process.env.RUN_DIR);
  const start = async (name) => {
    const upper = { path: 'sandboxes/' + name + '/uppers/1', kind: 'directory', bytesMax: 1e8, inodesMax: 1e4 };
    await client.createUpper(upper);
    await client.start({ name, instance: Date.now(), hostname: name, lowers: ['layers/base'], upper,
      memoryBytesMax: 2 ** 27, cpuMilli: 1000, pidsMax: 64, shmBytesMax: 2 ** 20, openFilesMax: 1024,
      hosts: '', resolvConf: '', mounts: [] });
  };
  const unpack = () => client.unpack({ path: 'modules/base.squashfs', target: 'layers/base', bytesMax: 1e8, inodesMax: 1e4 });
  const names = async () => (await client.list()).map(({ name }) => name).join();
`;

class Scene implements AsyncDisposable {
  readonly dataDir: string;
  #app = repository;

  private constructor(dataDir: string) {
    this.dataDir = dataDir;
  }

  static async make(parent = '/tmp'): Promise<Scene> {
    const scene = new Scene(await mkdtemp(join(parent, ownedPrefix('enter'))));
    await chmod(scene.dataDir, 0o755);
    await mkdir(join(scene.dataDir, 'modules'));
    await mkdir(join(scene.dataDir, 'run'));
    const layer = join(scene.dataDir, 'modules/base.squashfs');
    await copyFile(await baseLayer(), layer);
    await chmod(layer, 0o644);
    await writeFile(join(scene.dataDir, 'launch-client.mjs'), launchClient ?? '', { mode: 0o644 });
    return scene;
  }

  /** Another run directory than the usual, made here. */
  async elsewhere(): Promise<string> {
    const path = join(this.dataDir, 'elsewhere');
    await mkdir(path);
    return path;
  }

  words(script: string, app = this.#app, runDir = join(this.dataDir, 'run')): string[] {
    const directories = ['--data', this.dataDir, '--run', runDir, '--app', app];
    const node = [process.execPath, '--input-type=module', '-e', prelude(this.dataDir) + script];
    return [program, 'enter', ...directories, '--', ...node];
  }

  get env(): NodeJS.ProcessEnv {
    return { ...process.env, RUN_DIR: join(this.dataDir, 'run') };
  }

  /** Runs the script inside; its stdout. */
  async inside(script: string, runDir?: string): Promise<string> {
    const [first = '', ...rest] = this.words(script, this.#app, runDir);
    const { stdout } = await run(first, rest, {
      env: runDir === undefined ? this.env : { ...this.env, RUN_DIR: runDir },
    });
    return stdout.trim();
  }

  /** Becomes a program that ends at once. */
  async nothing(): Promise<void> {
    const [first = '', ...rest] = this.words('');
    await run(first, [...rest.slice(0, rest.indexOf('--') + 1), '/bin/true']);
  }

  spawn(script: string): ChildProcess {
    const [first = '', ...rest] = this.words(script);
    return spawn(first, rest, { env: this.env, stdio: ['ignore', 'pipe', 'inherit'] });
  }

  /** The resident launcher's process id; undefined where none lives. */
  launcher(): number | undefined {
    return processes().find(({ command }) => command.startsWith(`squash-launch resident ${this.dataDir}`))
      ?.pid;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.launcher() !== undefined) await this.inside('await client.shutdown()');
    try {
      await expectNoLeaks(this.dataDir);
    } finally {
      await removeDataDirectory(this.dataDir);
    }
  }
}

const namespaces = `
  import { readlinkSync } from 'node:fs';
  console.log(readlinkSync('/proc/self/ns/user'), readlinkSync('/proc/self/ns/mnt'), process.getuid());
`;

test('enter joins the namespaces that live when it is called again', async () => {
  await using scene = await Scene.make();
  const first = await scene.inside(namespaces);
  const launcher = scene.launcher();
  assert.equal(await scene.inside(namespaces), first);
  assert.equal(scene.launcher(), launcher);
  assert.match(first, / 0$/);
});

test('enter makes one launcher when it is called many times at once', async () => {
  await using scene = await Scene.make();
  const seen = await Promise.all(Array.from({ length: 5 }, async () => scene.inside(namespaces)));
  assert.equal(new Set(seen).size, 1, seen.join('\n'));
});

test('sandbox lives on and is listed when the daemon is killed', async () => {
  await using scene = await Scene.make();
  const daemon = scene.spawn(
    `await unpack(); await start('lives'); console.log('up'); setInterval(() => {}, 1e6);`,
  );
  assert.ok(daemon.stdout !== null);
  await once(daemon.stdout, 'data');
  daemon.kill('SIGKILL');
  await once(daemon, 'exit');
  assert.equal(await scene.inside('console.log(await names())'), 'lives');
});

test('each sandbox, and what is made for it, get a part of the disk of their own where the file system is ext4', {
  skip: statfsSync('/tmp').type === ext4 ? false : '/tmp is not ext4, which alone can be asked for that',
}, async () => {
  await using scene = await Scene.make();
  await scene.nothing();
  for (const name of ['sandboxes', 'tmp', 'run/g/new']) {
    const flags = execFileSync('lsattr', ['-d', join(scene.dataDir, name)], { encoding: 'utf8' });
    assert.match(flags, /^[^ ]*T/, name);
  }
  await scene.inside(`await unpack(); await start('one');`);
});

test('sandboxes of a killed launcher are ended and can start again when enter is called', async () => {
  await using scene = await Scene.make();
  await scene.inside(
    `await unpack(); await start('left'); await start('frozen'); await client.freeze('frozen');`,
  );
  const launcher = scene.launcher();
  assert.ok(launcher !== undefined);
  const records = readdirSync(join(scene.dataDir, 'run/g')).filter((name) => name.endsWith('.pid'));
  const pids = records.map((name) =>
    Number(readFileSync(join(scene.dataDir, 'run/g', name), 'utf8').split(' ')[0]),
  );
  assert.equal(pids.length, 2);
  process.kill(launcher, 'SIGKILL');
  await waitFor('the launcher to go', () => scene.launcher() === undefined);
  // Where root started, the privileged helper ends them as soon as the launcher is gone.
  if (process.getuid?.() !== 0) {
    for (const pid of pids) assert.ok(existsSync(`/proc/${pid}`), 'the sandbox lives without its launcher');
  }
  assert.equal(await scene.inside(`await start('left'); console.log(await names())`), 'left');
  assert.notEqual(scene.launcher(), launcher);
  const living = processes().map(({ pid }) => pid);
  for (const pid of pids) assert.ok(!living.includes(pid));
  assert.ok(cgroupsOf(scene.dataDir).every((path) => !path.includes('frozen')));
});

test('enter finds no launcher where the one it looked at is killed at that moment', async () => {
  await using scene = await Scene.make();
  let last = 0;
  for (let round = 0; round < 60; round += 1) {
    let launcher = scene.launcher();
    for (; launcher === undefined; launcher = scene.launcher()) await scene.nothing();
    last = launcher;
    const enters = Array.from({ length: 8 }, () => scene.nothing());
    // They take turns: at whichever of them the launcher dies.
    await Promise.race(enters);
    process.kill(launcher, 'SIGKILL');
    await Promise.all(enters);
  }
  // Nobody is handed to the last one while it dies.
  await waitFor('the last to be gone', () => !existsSync(`/proc/${last}`));
});

test('enter beside another run directory is refused while the launcher lives, and harms nothing', async () => {
  await using scene = await Scene.make();
  await scene.inside(`await unpack(); await start('lives');`);
  const elsewhere = await scene.elsewhere();
  await assert.rejects(
    scene.inside('', elsewhere),
    (error: Error) =>
      error.message.includes(`live beside the run directory "${scene.dataDir}/run"`) &&
      error.message.includes('(data_locked)'),
  );
  assert.equal(await scene.inside('console.log(await names())'), 'lives');
});

test('enter beside another run directory ends what a killed launcher left beside the first', async () => {
  await using scene = await Scene.make();
  await scene.inside(`await unpack(); await start('left');`);
  const [record = ''] = readdirSync(join(scene.dataDir, 'run/g')).filter((name) => name.endsWith('.pid'));
  const pid = Number(readFileSync(join(scene.dataDir, 'run/g', record), 'utf8').split(' ')[0]);
  process.kill(scene.launcher() ?? 0, 'SIGKILL');
  const elsewhere = await scene.elsewhere();
  assert.equal(await scene.inside(`await start('left'); console.log(await names())`, elsewhere), 'left');
  assert.ok(!processes().some((entry) => entry.pid === pid));
  await scene.inside('await client.shutdown()', elsewhere);
});

test('enter refuses a run directory in which the launcher of another data directory lives', async () => {
  await using scene = await Scene.make();
  await using other = await Scene.make();
  await scene.inside('');
  await assert.rejects(
    other.inside('', join(scene.dataDir, 'run')),
    /in use for another data directory .*\(data_locked\)/,
  );
});

const helped = { skip: process.getuid?.() === 0 ? false : 'only root has a privileged helper' };

test(
  'sandboxes and control groups go when the launcher is killed and nobody comes after it',
  helped,
  async () => {
    await using scene = await Scene.make();
    await scene.inside(
      `await unpack(); await start('left'); await start('frozen'); await client.freeze('frozen');`,
    );
    const launcher = scene.launcher();
    assert.ok(launcher !== undefined);
    assert.ok(cgroupsOf(scene.dataDir).length > 0, 'else this test would look for nothing');
    process.kill(launcher, 'SIGKILL');
    await expectNoLeaks(scene.dataDir);
  },
);

/** The privileged helper of this directory and the child of it that serves; older first. */
function helpers(dataDir: string): readonly number[] {
  const [base = ''] = baseCgroupsOf(dataDir);
  const title = `squash-launch helper ${base.slice(base.lastIndexOf('/') + 1)}`;
  const found = processes().filter(({ command }) => command === title);
  return found.sort((one) => (found.some(({ pid }) => pid === one.parent) ? 1 : -1)).map(({ pid }) => pid);
}

/** What root wrote down of the launcher. */
const recordOf = (dataDir: string): string => join('/run/squash-launch', cgroupName(dataDir));

test('a daemon that listens in its launcher’s place is given no privileged helper', helped, async () => {
  await using scene = await Scene.make();
  await scene.inside('');
  assert.match(readFileSync(recordOf(scene.dataDir), 'utf8'), new RegExp(`^${scene.launcher()} \\d+\\n$`));
  const hijacked = scene.spawn(`
    import { renameSync, unlinkSync } from 'node:fs';
    import { createServer } from 'node:net';
    const socket = process.env.RUN_DIR + '/launch.sock';
    unlinkSync(process.env.RUN_DIR + '/../helper.lock');
    renameSync(socket, socket + '.kept');
    createServer((connection) => connection.on('data', (bytes) => console.log('got ' + bytes.length)))
      .listen(socket, () => console.log('up'));
    process.on('SIGTERM', () => {
      renameSync(socket + '.kept', socket);
      process.exit();
    });
  `);
  let output = '';
  hijacked.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await waitFor('it to listen', () => output.includes('up'));
  const before = helpers(scene.dataDir);
  await scene.nothing();
  hijacked.kill('SIGTERM');
  await once(hijacked, 'close');
  assert.equal(output, 'up\n');
  assert.deepEqual(helpers(scene.dataDir), before);
});

test(
  'a privileged helper that is gone comes again for the launcher root made, and the word on it goes',
  helped,
  async () => {
    await using scene = await Scene.make();
    await scene.inside('');
    const kill = async (): Promise<void> => {
      for (const pid of helpers(scene.dataDir)) process.kill(pid, 'SIGKILL');
      await waitFor('them to be gone', () => helpers(scene.dataDir).length === 0);
    };
    await kill();
    await scene.nothing();
    await waitFor('another', () => helpers(scene.dataDir).length === 2);
    // As beside a launcher of an earlier version.
    const record = readFileSync(recordOf(scene.dataDir));
    await rm(recordOf(scene.dataDir));
    await kill();
    await scene.nothing();
    assert.deepEqual(helpers(scene.dataDir), []);
    await writeFile(recordOf(scene.dataDir), record);
    await scene.nothing();
    await waitFor('another', () => helpers(scene.dataDir).length === 2);
    await scene.inside('await client.shutdown()');
    await waitFor('the helper to end', () => helpers(scene.dataDir).length === 0);
    assert.ok(!existsSync(recordOf(scene.dataDir)));
  },
);

test('control groups go with the launcher when its helper was told to end first', helped, async () => {
  await using scene = await Scene.make();
  await scene.inside('');
  // The second is a child of the first.
  await waitFor('both', () => helpers(scene.dataDir).length === 2);
  const found = helpers(scene.dataDir);
  for (const pid of found) {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pid, signal);
  }
  await scene.inside('await client.shutdown()');
  await expectNoLeaks(scene.dataDir);
});

test(
  'the helper works again when it was killed, and the next enter brings one back when all of it was',
  helped,
  async () => {
    const image = (name: string) =>
      `await client.createUpper({ path: 'sandboxes/${name}/uppers/1', kind: 'image', bytesMax: 2 ** 26, inodesMax: 4096 });`;
    await using scene = await Scene.make();
    await scene.inside(image('one'));
    const [parent = 0, child = 0] = helpers(scene.dataDir);
    process.kill(child, 'SIGKILL');
    await scene.inside(image('two'));
    process.kill(parent, 'SIGKILL');
    await waitFor('the parent to be gone', () => helpers(scene.dataDir).length === 1);
    await scene.inside(image('three'));
    for (const pid of helpers(scene.dataDir)) process.kill(pid, 'SIGKILL');
    await waitFor('the last of it to be gone', () => helpers(scene.dataDir).length === 0);
    const launcher = scene.launcher();
    await scene.inside(`await unpack(); await start('lives'); ${image('four')}`);
    const [last = 0, ...others] = helpers(scene.dataDir);
    for (const pid of [last, ...others]) process.kill(pid, 'SIGKILL');
    await waitFor('all of it to be gone', () => helpers(scene.dataDir).length === 0);
    assert.equal(await scene.inside(`${image('five')} console.log(await names())`), 'lives');
    assert.deepEqual([scene.launcher(), helpers(scene.dataDir).length], [launcher, 2]);
  },
);

test('socket addresses hold when the data directory’s path is longer than they are', async () => {
  const parent = await mkdtemp('/tmp/squash-deep-');
  await chmod(parent, 0o755);
  const deep = join(parent, ...Array.from({ length: 6 }, () => 'a-directory-with-a-name-of-some-length'));
  await mkdir(deep, { recursive: true });
  {
    await using scene = await Scene.make(deep);
    assert.ok(scene.dataDir.length > 200);
    assert.equal(
      await scene.inside(`await unpack(); await start('deep'); console.log(await names())`),
      'deep',
    );
  }
  await rm(parent, { recursive: true });
});

test('enter leaves no control group when it fails before anything runs', async () => {
  await using scene = await Scene.make();
  // Where a dead launcher would have left its records.
  await writeFile(join(scene.dataDir, 'run/g'), '');
  await assert.rejects(scene.inside(''), /can't open g below/);
  await rm(join(scene.dataDir, 'run/g'));
});

test('enter refuses when the data directory belongs to somebody else', {
  skip: process.getuid?.() === 0 ? false : 'only root can give a directory away',
}, async () => {
  await using scene = await Scene.make();
  await chown(scene.dataDir, 12_345, 12_345);
  await assert.rejects(scene.inside(namespaces), /belongs to uid 12345/);
  await chown(scene.dataDir, 0, 0);
});

const closed = {
  skip: process.getuid?.() === 0 ? false : 'only root starts as one id and works as another',
};

test(
  'data and program may lie below a closed directory, whatever the umask, when root starts',
  closed,
  async () => {
    const home = await mkdtemp(join(homedir(), 'squash-closed-'));
    await chmod(home, 0o700);
    const app = join(home, 'app');
    await mkdir(app);
    await chmod(app, 0o755);
    {
      await using scene = await Scene.make(home);
      const words = scene.words(
        `import { readdirSync, statSync } from 'node:fs';
       await unpack(); await start('closed');
       const root = statSync('${scene.dataDir}/sandboxes/closed/uppers/1/data').mode.toString(8);
       console.log(await names(), process.cwd(), readdirSync('${home}').length, root);`,
        app,
      );
      const umask = process.umask(0o077);
      const { stdout } = await run(words[0] ?? '', words.slice(1), { env: scene.env }).finally(() =>
        process.umask(umask),
      );
      assert.equal(stdout.trim(), `closed ${app} 2 40755`);
      const hidden = await scene.inside(
        `import { existsSync } from 'node:fs'; console.log(existsSync('${homedir()}/.profile'));`,
      );
      assert.equal(hidden, 'false');
    }
    await rm(home, { recursive: true });
  },
);

test('enter says what is wrong when words or directories are missing', () => {
  for (const words of [
    [],
    ['enter'],
    ['enter', '--data', '/nowhere', '--run', '/tmp', '--app', '/', '--', 'true'],
  ]) {
    assert.throws(() => execFileSync(program, words, { stdio: 'pipe' }), /usage|no directory/);
  }
});
