/** The set-up script, on projects of its own whose package list names what no machine has. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '../..');

interface Listed {
  readonly package: string;
  readonly phases: string;
  readonly need: string;
  readonly why: string;
  readonly only?: string;
  readonly command?: string;
}

const listed: readonly Listed[] = JSON.parse(
  readFileSync(join(root, 'packaging/packages.json'), 'utf8'),
).packages;

/** A project with nothing but the set-up script and this package list, open to every user. */
function projectWith(packages: readonly Listed[]): { readonly directory: string } & Disposable {
  const directory = mkdtempSync(join(tmpdir(), 'squash-setup-'));
  chmodSync(directory, 0o777);
  mkdirSync(join(directory, 'tools'));
  cpSync(join(root, 'tools/setup'), join(directory, 'tools/setup'), { recursive: true });
  mkdirSync(join(directory, 'packaging'));
  writeFileSync(join(directory, 'packaging/packages.json'), JSON.stringify({ packages }, null, 2));
  return { directory, [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }) };
}

/** As a user without any rights, whoever runs the test: then nothing is installed. */
function setUpAsNobody(directory: string, phases: readonly string[]) {
  const drop = ['--reuid=65534', '--regid=65534', '--clear-groups', '--no-new-privs'];
  return spawnSync('setpriv', [...drop, '--', join(directory, 'tools/setup/setup.sh'), ...phases], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    // With this Node: a machine's older one would have another fetched.
    env: { HOME: '/nonexistent', PATH: `${dirname(process.execPath)}:/usr/bin:/bin` },
  });
}

const skip = process.getuid?.() === 0 ? false : 'needs root to become a user without rights';
const missing = {
  package: 'squash-no-such-package',
  phases: 'run test',
  need: 'must',
  why: 'is never there',
};

test('setup.sh prints the exact command and fails when a package is missing and nobody may install', {
  skip,
}, () => {
  using project = projectWith([missing, { ...missing, package: 'bash' }]);
  const { status, stderr } = setUpAsNobody(project.directory, ['run']);
  assert.equal(status, 69, stderr);
  assert.match(stderr, /^ {4}apt-get install -y --no-install-recommends squash-no-such-package ?$/m);
  assert.match(stderr, /squash-no-such-package +run +is never there/);
});

test('setup.sh asks for no package of another phase, another architecture, or that a command stands for', {
  skip,
}, () => {
  using project = projectWith([
    { ...missing, phases: 'bench' },
    { ...missing, only: 'no-such-architecture' },
    { ...missing, command: 'bash' },
  ]);
  assert.match(setUpAsNobody(project.directory, ['run']).stderr, /^packages {2}all there$/m);
});

test('setup.sh goes on without a package that is only recommended', { skip }, () => {
  using project = projectWith([{ ...missing, need: 'should' }]);
  const { stderr } = setUpAsNobody(project.directory, ['run']);
  assert.match(stderr, /All of these are optional/);
  assert.doesNotMatch(stderr, /these packages are missing/);
});

test('setup.sh refuses a Node that is not the one whose digest it knows, and leaves nothing of it', () => {
  using project = projectWith([]);
  const tools = join(project.directory, 'bin');
  mkdirSync(tools);
  // A machine with Node 20, and a registry that has been taken over.
  writeFileSync(join(tools, 'node'), '#!/bin/sh\necho v20.19.0\n', { mode: 0o755 });
  const other =
    'mkdir -p package/bin; echo evil >package/bin/node; tar -czf other.tgz package; echo other.tgz';
  writeFileSync(join(tools, 'npm'), `#!/bin/sh\n${other}\n`, { mode: 0o755 });
  const { status, stderr } = spawnSync(join(project.directory, 'tools/setup/setup.sh'), [], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { HOME: '/nonexistent', PATH: `${tools}:/usr/bin:/bin` },
  });
  assert.equal(status, 69, stderr);
  assert.match(stderr, /^node +fetching Node 24\S* from npm/m);
  assert.match(stderr, /does not have the digest written in tools\/setup\/setup\.sh/);
  assert.deepEqual(readdirSync(join(project.directory, '.cache')), ['setup.lock']);
});

test('a change of any C source of the programs has them built again', () => {
  const folders = readdirSync(join(root, 'native'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !['build', 'tests', 'fuzz'].includes(entry.name))
    .map((entry) => entry.name)
    .sort();
  for (const file of ['squash', 'tools/setup/setup.sh']) {
    const text = readFileSync(join(root, file), 'utf8');
    const [, watched = ''] = /"\$root"\/native\/\{([a-z,]+)\}\/\*/.exec(text) ?? [];
    assert.deepEqual(watched.split(','), folders, file);
  }
});

test('packages.json names each package once, with known phases and a reason', () => {
  const names = listed.map((entry) => entry.package);
  assert.equal(new Set(names).size, names.length);
  for (const entry of listed) {
    assert.match(entry.package, /^[a-z0-9][a-z0-9.+-]+$/);
    assert.match(entry.need, /^(must|should)$/);
    assert.notEqual(entry.why, '');
    for (const phase of entry.phases.split(' ')) assert.match(phase, /^(run|layers|build|test|bench)$/);
  }
});
