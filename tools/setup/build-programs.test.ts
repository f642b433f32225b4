/** A built program is used where it is fresh, and never where it is not: on copies of the project's parts. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { memoryFlags as egressFlags } from '../../host/src/egress/egress-process.ts';
import { memoryFlags as daemonFlags } from '../../base/src/daemon-command.ts';
import type { BuiltHead } from './build-programs.ts';
import { waitFor } from '../../tests/support/wait.ts';

const root = join(import.meta.dirname, '../..');
/** Loads no TypeScript: only the built CLI can run. */
const noSources = ['--no-experimental-strip-types', '--disable-warning=ExperimentalWarning'];
const nobody = ['--reuid=65534', '--regid=65534', '--clear-groups', '--no-new-privs', '--'];

class Copy implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'squash-built-'));
  readonly built = join(this.directory, '.cache/built/cli/src/main');

  constructor() {
    chmodSync(this.directory, 0o755);
    for (const part of [
      'package.json',
      'base',
      'box',
      'build',
      'cli',
      'contract',
      'egress',
      'host',
      'images',
      'installation',
      'groups',
      'policy',
      'sdk',
      'tools/setup',
    ]) {
      // With their times: what was written a moment ago is not built yet.
      spawnSync('cp', ['-a', '--parents', part, this.directory], { cwd: root });
    }
    mkdirSync(join(this.directory, 'node_modules/@squash'), { recursive: true });
    mkdirSync(join(this.directory, '.cache'));
    for (const name of readdirSync(join(root, 'node_modules'))) {
      if (name !== '@squash')
        symlinkSync(join(root, 'node_modules', name), join(this.directory, 'node_modules', name));
    }
    for (const part of readdirSync(this.directory).filter((name) =>
      existsSync(join(this.directory, name, 'src')),
    ))
      symlinkSync(`../../${part}`, join(this.directory, 'node_modules/@squash', part));
  }

  /** The CLI. */
  run(words: readonly string[], flags: readonly string[] = [], before: readonly string[] = []) {
    return this.node([...flags, join(this.directory, 'cli/bin/squash.cjs'), ...words], before);
  }

  /** Another program. */
  start(source: string, words: readonly string[] = [], flags: readonly string[] = []) {
    return this.node([
      ...flags,
      join(this.directory, 'base/bin/built.cjs'),
      join(this.directory, source),
      ...words,
    ]);
  }

  node(words: readonly string[], before: readonly string[] = []) {
    const call = [...before, process.execPath, ...words];
    const { status, stdout, stderr } = spawnSync(call[0] ?? '', call.slice(1), {
      encoding: 'utf8',
      // Another user's compile cache must not be written, nor this test's files be kept in it. No daemon has its data there.
      env: { PATH: process.env['PATH'], SQUASH_DATA: '/proc/x', NODE_DISABLE_COMPILE_CACHE: '1' },
    });
    return { status, stdout, stderr };
  }

  /** Another text of the same length, and with a time before the built file's. */
  edit(path: string, from: string, to: string): void {
    const file = join(this.directory, path);
    const text = readFileSync(file, 'utf8');
    assert.ok(text.includes(from));
    assert.equal(from.length, to.length);
    writeFileSync(file, text.replace(from, to));
    utimesSync(file, 1_000_000_000, 1_000_000_000);
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const version = ['version', '--offline'];

const firstBuilt = new Copy();
firstBuilt.run(version);
after(() => firstBuilt[Symbol.dispose]());

/** As if the CLI had been built there: its file names sources by their paths in the project, and these have their times. */
function builtCopy(): Copy {
  const copy = new Copy();
  spawnSync('cp', ['-a', '--parents', '.cache/built', copy.directory], { cwd: firstBuilt.directory });
  return copy;
}

test('the built CLI says what the sources say', () => {
  using copy = new Copy();
  const built = copy.run(['help']);
  assert.ok(existsSync(copy.built), built.stderr);
  const sources = spawnSync(process.execPath, [join(root, 'cli/bin/squash.mjs'), 'help'], {
    encoding: 'utf8',
  });
  assert.deepEqual(copy.run(['help'], noSources).stdout, sources.stdout);
  assert.equal(built.stdout, sources.stdout);
  assert.equal(copy.run(version, noSources).status, 0);
});

test('the built CLI knows where the project lies', () => {
  using copy = builtCopy();
  writeFileSync(
    join(copy.directory, 'host/src/offline.ts'),
    'process.stdout.write(\'{"error":{"code":"x"}}\');',
  );
  // Only a child that was started in the copy can have said that.
  assert.match(copy.run(['doctor']).stderr, /\(x\)/);
});

test('a changed source is never hidden by a built CLI, and is built in turn', () => {
  using copy = builtCopy();
  assert.match(copy.run(version).stdout, /^squash \d/);
  const before = statSync(copy.built);
  assert.equal(copy.run(version, noSources).status, 0);
  assert.equal(statSync(copy.built).ino, before.ino, 'what is fresh is not built again');
  copy.edit('cli/src/commands/version.ts', 'printLine(`squash ', 'printLine(`SQUASH ');
  assert.match(copy.run(version).stdout, /^SQUASH \d/);
  assert.match(copy.run(version, noSources).stdout, /^SQUASH \d/);
  copy.edit('contract/src/data-directory.ts', 'export ', 'EXPORT ');
  assert.notEqual(copy.run(version).status, 0, 'a source that does not compile fails');
  copy.edit('contract/src/data-directory.ts', 'EXPORT ', 'export ');
  assert.match(copy.run(version).stdout, /^SQUASH \d/);
});

test('the first call of the daemon’s first stage builds what it starts, and a changed source is never hidden', () => {
  using copy = new Copy();
  const refused = copy.start('host/src/serve.ts');
  assert.match(refused.stderr, /SQUASH_DATA is "\/proc\/x": no directory can be made there/);
  assert.equal(refused.status, 78);
  assert.deepEqual(copy.start('host/src/serve.ts', [], noSources), refused);
  const repair = () => copy.start('host/src/main.ts', ['repair'], noSources);
  assert.match(repair().stdout, /^\{"error":/);
  const egress = copy.start('egress/src/main.ts', [], noSources);
  assert.match(egress.stderr, /^usage: main\.ts --data DIR/);
  copy.edit('egress/src/main.ts', 'usage: main', 'USAGE: main');
  // It may not write here where it runs for real: it builds nothing.
  assert.match(copy.start('egress/src/main.ts').stderr, /^USAGE: main/);
  assert.doesNotMatch(copy.start('egress/src/main.ts', [], noSources).stderr, /^USAGE/);
  const isBuilt = `process.stdout.write(String(require(process.argv[1]).startsFresh('host/src/serve.ts')))`;
  const told = () => copy.node(['--eval', isBuilt, join(copy.directory, 'base/bin/built.cjs')]).stdout;
  assert.equal(told(), 'false');
  copy.start('host/src/serve.ts');
  assert.match(copy.start('egress/src/main.ts', [], noSources).stderr, /^USAGE: main/);
  assert.equal(told(), 'true');
});

test('V8 takes what was compiled for the settings that the daemon and the egress process have', () => {
  using copy = new Copy();
  copy.start('host/src/serve.ts');
  const isTaken = `
    const file = require('node:fs').readFileSync(process.argv[1]);
    const headEnd = file.indexOf(10) + 1;
    const codeEnd = headEnd + JSON.parse(file.latin1Slice(0, headEnd)).codeBytes;
    const options = { cachedData: file.subarray(codeEnd) };
    process.exitCode = Number(new (require('node:vm').Script)(file.latin1Slice(headEnd, codeEnd), options).cachedDataRejected);`;
  const taken = (built: string, flags: readonly string[]) =>
    copy.node([...flags, '--eval', isTaken, join(copy.directory, '.cache/built', built)]).status === 0;
  assert.ok(taken('host/src/serve', []));
  assert.ok(taken('host/src/main', ['--disable-sigusr1', ...daemonFlags]));
  assert.ok(taken('egress/src/main', ['--disable-sigusr1', ...egressFlags]));
  assert.ok(!taken('host/src/main', ['--max-lazy']), 'what is asked can be denied');
});

test('a program that has loaded knows whether it would still be loaded', () => {
  using copy = builtCopy();
  const look = `
    const { isCurrent, load } = require(process.argv[1] + '/base/bin/built.cjs');
    load('cli/src/main.ts', false);
    const before = isCurrent('cli/src/main.ts');
    require('node:fs').appendFileSync(process.argv[1] + '/cli/src/main.ts', ' ');
    process.stdout.write([before, isCurrent('cli/src/main.ts')].join());`;
  assert.equal(copy.node(['--eval', look, copy.directory]).stdout, 'true,false');
});

test('the daemon has loaded no TLS and no client of the web when it is up', () => {
  using copy = new Copy();
  copy.start('host/src/serve.ts');
  const look = `
    const { load } = require(process.argv[1] + '/base/bin/built.cjs');
    void load('host/src/main.ts', false).loadDaemon().then(() => {
      const late = ['tls', 'https', 'zlib', 'worker_threads', 'internal/deps/undici/undici'];
      process.stdout.write(JSON.stringify(late.filter((name) => process.moduleLoadList.includes('NativeModule ' + name))));
      process.exit();
    });`;
  assert.equal(copy.node(['--eval', look, copy.directory]).stdout, '[]');
});

test('what a program has compiled by the time it ends is taken at its next start, until it is built anew', () => {
  using copy = builtCopy();
  const keep = `
    process.env.NODE_COMPILE_CACHE = process.argv[1] + '/compile';
    const { keepCompiled, load } = require(process.argv[1] + '/base/bin/built.cjs');
    void load('cli/src/main.ts', true).start(['help', 'exec']).then(() => {
      process.stderr.write([keepCompiled('cli/src/main.ts'), keepCompiled('cli/src/main.ts')].join());
    });`;
  const kept = join(copy.directory, 'compile/cli-src-main.ts.kept');
  const run = (flags: readonly string[] = []) => {
    const { stdout, stderr } = copy.node([...noSources, ...flags, '--eval', keep, copy.directory]);
    assert.match(stdout, /^Usage: squash exec/m);
    return stderr;
  };
  assert.equal(run(), 'true,false');
  assert.deepEqual(readdirSync(dirname(kept)), ['cli-src-main.ts.kept']);
  const whole = readFileSync(kept);
  const { codeBytes } = JSON.parse(readFileSync(copy.built, 'latin1').split('\n', 1)[0] ?? '') as BuiltHead;
  const headBytes = readFileSync(copy.built).indexOf(10) + 1;
  assert.ok(whole.length > statSync(copy.built).size - headBytes - codeBytes, 'with what was called');
  assert.equal(run(), 'false,false', 'it was taken');
  assert.deepEqual(readFileSync(kept), whole);

  // One that others may write is nobody's to run.
  chmodSync(kept, 0o620);
  assert.equal(run(), 'true,false');

  // Torn, or compiled with other settings: V8 refuses it, and it is made again.
  writeFileSync(kept, whole.subarray(0, whole.length / 2));
  assert.equal(run(), 'true,false');
  assert.equal(run(['--no-opt', '--max-lazy']), 'true,false');
  // Code of the same length is compiled anew.
  copy.edit('cli/src/main.ts', 'squash', 'squosh');
  assert.equal(run(), 'true,false');
  assert.equal(run(), 'false,false');
});

test('a broken built file is as good as none', () => {
  using copy = new Copy();
  mkdirSync(dirname(copy.built), { recursive: true });
  for (const bytes of ['', '{"inputs":[]', 'null\n', '\0'.repeat(4096)]) {
    writeFileSync(copy.built, bytes);
    assert.match(copy.run(version).stdout, /^squash \d/, JSON.stringify(bytes));
  }
});

test('compiled code of another Node is refused and the code compiled anew', () => {
  using copy = builtCopy();
  assert.match(copy.run(version, [...noSources, '--no-opt', '--max-lazy']).stdout, /^squash \d/);
});

test('another user runs the sources where the built CLI is stale, and writes nothing', {
  skip: process.getuid?.() === 0 ? false : 'needs root to become another user',
}, () => {
  using copy = builtCopy();
  const before = statSync(copy.built);
  assert.match(copy.run(version, noSources, ['setpriv', ...nobody]).stdout, /^squash \d/);
  copy.edit('cli/src/commands/version.ts', 'printLine(`squash ', 'printLine(`SQUASH ');
  chmodSync(dirname(copy.built), 0o777);
  assert.match(copy.run(version, [], ['setpriv', ...nobody]).stdout, /^SQUASH \d/);
  assert.equal(statSync(copy.built).ino, before.ino);
});

test('what a killed build has left in the directory for temporary files is gone with the next one', async () => {
  using copy = new Copy();
  const scratch = join(copy.directory, 'scratch');
  mkdirSync(scratch);
  const words = ['--no-warnings', join(copy.directory, 'tools/setup/build-programs.ts'), 'cli/src/main.ts'];
  const env = { ...process.env, TMPDIR: scratch };
  // A build has a directory for a tenth of a second.
  await waitFor('a build to be killed in time', async () => {
    const build = spawn(process.execPath, words, { env, stdio: 'ignore' });
    const watcher = watch(scratch, () => build.kill('SIGKILL'));
    await once(build, 'exit');
    watcher.close();
    return readdirSync(scratch).length > 0;
  });
  assert.equal(spawnSync(process.execPath, words, { env }).status, 0);
  assert.deepEqual(readdirSync(scratch), []);
});
