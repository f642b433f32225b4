/** One policy of several files: which rule holds, where it came from, and that it can be written down and read again. */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { it } from 'node:test';
import { bundleNames } from './bundles.ts';
import { diffPolicies } from './diff.ts';
import { expandLayers } from './expand.ts';
import { policyText } from './policy-text.ts';
import { hostPlaces, resolvePolicy } from './resolve.ts';
import { policyOf, Scene } from './scene.ts';
import { readSecrets } from './secret-values.ts';
import { policyVariables } from './variables.ts';
import { whyHost, whyPath } from './why.ts';

const isRoot = process.geteuid?.() === 0;
const onlyRoot = { skip: isRoot ? false : 'the managed file is root’s' };

const rows = [
  {
    title: 'the longest match wins within a file',
    user: { fs: { '~/a': 'hidden', '~/a/b': 'ro' } },
    path: '~/a/b/c',
    level: 'ro',
  },
  {
    title: 'of one path the stricter holds',
    user: { fs: { '~/a': 'ro' } },
    trusted: { fs: { '~/a': 'cow' } },
    path: '~/a',
    level: 'ro',
  },
  {
    title: 'the command line is nearer than the user’s file',
    user: { fs: { '~/a': 'ro' } },
    flags: { fs: { '~/a': 'rw' } },
    path: '~/a',
    level: 'rw',
  },
  {
    title: 'no other file opens what the user’s closes',
    user: { fs: { '~/a': 'deny' } },
    trusted: { fs: { '~/a/b': 'ro' } },
    path: '~/a/b',
    level: 'deny',
  },
  {
    title: 'a project may close what the user opened',
    user: { fs: { './x': 'rw' } },
    project: { fs: { './x': 'hidden' } },
    path: './x',
    level: 'hidden',
  },
  {
    title: 'a hidden home is re-opened by name',
    user: { fs: { '~': 'hidden' } },
    flags: { fs: { '~/a': 'ro' } },
    path: '~/a',
    level: 'ro',
  },
  {
    title: 'a hidden home hides what appears later',
    user: { fs: { '~': 'hidden' } },
    path: '~/later',
    level: 'hidden',
  },
  {
    title: 'a literal hidden name holds for a file that is not there',
    user: { fs: { './.env': 'hidden' } },
    path: './.env',
    level: 'hidden',
  },
  {
    title: 'a named path is stronger than a pattern',
    user: { fs: { './**/.env*': 'hidden', './x/.env.example': 'ro' } },
    path: './x/.env.example',
    level: 'ro',
  },
  {
    title: 'a pattern finds a name in every directory',
    user: { fs: { './**/.env*': 'hidden' } },
    path: './x/y/.env',
    level: 'hidden',
  },
  {
    title: 'a pattern of one step finds no deeper one',
    user: { fs: { './*/.env': 'hidden' } },
    path: './x/y/.env',
    level: 'cow',
  },
  {
    title: 'a rule about a link is about what it leads to',
    user: { fs: { './link': 'hidden' } },
    path: './x/y',
    level: 'hidden',
  },
  {
    title: 'another place to work in leaves the repository closed',
    user: { workdir: { source: './x', mode: 'cow' } },
    path: './README',
    level: 'hidden',
  },
  {
    title: 'a private cache opens nothing',
    user: { caches: { cargo: 'private' } },
    path: '~/.cargo/registry',
    level: 'hidden',
  },
  {
    title: 'a private cache is private where a bundle shares it, and where what is around it is seen',
    user: { extends: ['builtin:rust'], fs: { '~/.cargo': 'cow' }, caches: { cargo: 'private' } },
    path: '~/.cargo/registry',
    level: 'hidden',
  },
  {
    title: 'a shared cache is copy-on-write',
    user: { caches: { cargo: 'cow' } },
    path: '~/.cargo/registry',
    level: 'cow',
  },
  {
    title: 'logins beside a cache stay hidden',
    user: { caches: { cargo: 'cow' } },
    path: '~/.cargo/credentials.toml',
    level: 'hidden',
  },
  {
    title: 'a managed rule closes what all others open',
    managed: { fs: { '~/a': 'hidden' } },
    user: { fs: { '~/a/b': 'rw' } },
    flags: { fs: { '~/a/b': 'rw' } },
    path: '~/a/b',
    level: 'hidden',
  },
  {
    title: 'a managed file can forbid rw',
    managed: { forbid: { rw: true } },
    flags: { workdir: { mode: 'rw' } },
    path: './x',
    level: 'cow',
  },
];

for (const { title, managed, user, project, trusted, flags, path, level } of rows) {
  it(`paths: ${title}`, managed === undefined ? {} : onlyRoot, async () => {
    using scene = tree();
    if (managed !== undefined) scene.managed(managed);
    if (user !== undefined) scene.user(user);
    if (project !== undefined) scene.project(project);
    if (trusted !== undefined) {
      scene.project(trusted);
      await scene.trust();
    }
    assert.equal(scene.level(path, flags), level);
  });
}

function tree(): Scene {
  const scene = new Scene();
  scene.directory('home/me/a/b/c');
  scene.directory('home/me/.cargo/registry');
  scene.write('./x/y/.env', 'KEY=1');
  scene.write('./x/.env.example', 'KEY=');
  symlinkSync('x/y', scene.path('./link'));
  return scene;
}

it('managed: what it forbids nobody gives, and its own word stands', onlyRoot, () => {
  using scene = new Scene();
  scene.managed({
    forbid: { net: true, ports: true, env: ['AWS_*'], secrets: ['*'] },
    net: { allow: ['mirror.example'], deny: ['evil.example'] },
    limits: { cpu: 2 },
  });
  scene.user({
    net: { allow: ['a.example'] },
    ports: { host: [1] },
    env: { pass: ['AWS_*', 'A*', 'MINE'] },
    secrets: { S: { from: 'env:S', hosts: ['a.example'] } },
    limits: { cpu: 4, memory_mb: 512 },
  });
  const { policy } = scene.resolve({ limits: { memory_mb: 2_048 } });
  assert.deepEqual(policy.net.allow, ['mirror.example']);
  assert.deepEqual([policy.ports.host, policy.secrets.size], [[], 0]);
  assert.deepEqual(policyVariables(policy, { AWS_KEY: 'k', AT: 't', MINE: 'm' }), { AT: 't', MINE: 'm' });
  assert.deepEqual([policy.limits.cpu?.value, policy.limits.memory_mb?.value], [2, 512]);
});

it('managed: a port of this machine is forbidden by whatever section it is named', onlyRoot, () => {
  using scene = new Scene();
  scene.managed({ forbid: { ports: true, devices: true } });
  const host = 'host.squash.internal:5432';
  scene.user({
    ports: { host: [1] },
    net: { allow: ['a.example', host, { to: [host], methods: ['GET'] }], ask: [host] },
    devices: { allow: ['kvm'] },
  });
  const { policy } = scene.resolve();
  assert.deepEqual([policy.net.allow, policy.net.ask, policy.devices], [['a.example'], undefined, []]);
});

it('nesting is the user’s to give, the managed file’s to forbid, and anybody’s to close', () => {
  using scene = new Scene();
  scene.project({ nesting: true });
  assert.equal(scene.resolve().policy.nesting, undefined);
  scene.user({ nesting: true });
  assert.equal(scene.resolve().policy.nesting?.value, true);
  scene.project({ nesting: false });
  assert.equal(scene.resolve().policy.nesting, undefined);
});

it('managed: nesting is forbidden', onlyRoot, () => {
  using scene = new Scene();
  scene.managed({ forbid: { nesting: true } });
  scene.user({ nesting: true });
  const { policy } = scene.resolve({ nesting: true });
  assert.equal(policy.nesting, undefined);
  assert.equal(policy.dropped.filter(({ rule }) => rule === 'nesting true').length, 2);
});

it('a project’s file narrows a secret of the user’s, and widens none', () => {
  using scene = new Scene();
  scene.user({ secrets: { KEY: { from: 'env:MY_KEY', hosts: ['*.a.example', 'b.example'] } } });
  scene.project({ secrets: { KEY: { hosts: ['api.a.example', 'attacker.example'] } } });
  const { policy } = scene.resolve();
  assert.deepEqual(policy.secrets.get('KEY')?.hosts, ['api.a.example']);
  const read = readSecrets(policy.secrets, { env: { MY_KEY: 'value-of-mine' }, home: scene.home });
  assert.deepEqual(read['KEY'], { value: 'value-of-mine', allowed_hosts: ['api.a.example'] });
  assert.throws(() => readSecrets(policy.secrets, { env: {}, home: scene.home }), /MY_KEY is not set/);
});

it('secrets are read from files and commands of the user’s own', () => {
  using scene = new Scene();
  writeFileSync(scene.path('~/key'), 'value-of-file\n');
  scene.user({
    secrets: {
      F: { from: 'file:~/key', hosts: ['a.example'] },
      C: { from: 'cmd:printf "value of %s" "$PWD"', hosts: ['a.example'] },
    },
  });
  const read = readSecrets(scene.resolve().policy.secrets, { env: {}, home: scene.home });
  assert.equal(read['F']?.value, 'value-of-file');
  assert.equal(read['C']?.value, `value of ${scene.home}`);
});

it('variables that a pattern finds and that look like secrets stay outside; what is named is passed', () => {
  using scene = new Scene();
  scene.user({ env: { pass: ['NPM_*', 'EXACT_TOKEN'], set: { CI: '1' } } });
  const env = { NPM_CONFIG_LOGLEVEL: 'warn', NPM_TOKEN: 'x', EXACT_TOKEN: 'y', OTHER: 'z' };
  assert.deepEqual(policyVariables(scene.resolve().policy, env), {
    NPM_CONFIG_LOGLEVEL: 'warn',
    EXACT_TOKEN: 'y',
    CI: '1',
  });
});

it('why tells the rule, its file and its line', () => {
  using scene = new Scene();
  scene.write(
    '~/.config/squash/box.toml',
    'version = 1\n[fs]\n"~/a" = "ro"\n\n[net]\nallow = ["a.example:443"]\ndeny = ["b.example"]\n',
  );
  const { policy } = scene.resolve();
  const grounds = { home: scene.home, repository: scene.repository };
  const reason = whyPath(policy, scene.path('~/a/b'), grounds);
  assert.equal(reason.level, 'ro');
  assert.equal(reason.at, scene.path('~/a'));
  assert.deepEqual(reason.source, { origin: 'user', file: scene.path('~/.config/squash/box.toml'), line: 3 });
  assert.match(whyPath(policy, scene.path('~/.ssh/id'), grounds).inside, /closed in every box/);
  assert.match(whyPath(policy, scene.path('/proc/1'), grounds).inside, /./);
  const ask = (host: string) => whyHost(policy, { host, address: undefined, port: 443, path: undefined });
  assert.deepEqual([ask('a.example').answer.allowed, ask('a.example').sources[0]?.source.line], [true, 6]);
  assert.equal(ask('c.example').answer.allowed, false);
});

it('a policy that is written down and given as a file makes the same box', async () => {
  using scene = tree();
  scene.user({
    extends: bundleNames.map((name) => `builtin:${name}`),
    fs: { '~/a': 'hidden', '~/a/b': 'ro', './**/.env*': 'hidden', './x/mask': { mask: 'nothing' } },
    secrets: { KEY: { from: 'env:K', hosts: ['a.example'] } },
    env: { pass: ['LC_*'], set: { CI: '1' } },
    ports: { host: [5432] },
    limits: { cpu: 2 },
  });
  scene.project({ fs: { './out': 'rw' }, net: { deny: ['evil.example'] } });
  await scene.trust();
  const { policy } = scene.resolve();
  const text = policyText(policy);
  using other = new Scene();
  const again = other.resolve(JSON.parse(JSON.stringify(text)) as object).policy;
  const own = [other.home, other.repository, other.places.user, other.places.state];
  const changes = diffPolicies(policy, again).filter(({ what }) => !own.includes(what.slice('fs '.length)));
  assert.deepEqual(changes, []);
  assert.deepEqual(diffPolicies(policy, scene.resolve(text).policy), []);
});

it('a directory whose own name would be a pattern is no place for a policy: a neighbour would fit it', () => {
  using scene = new Scene();
  const { home, places } = scene;
  const repository = scene.directory('home/me/work/re*o');
  assert.throws(
    () =>
      resolvePolicy(
        {
          places: { ...places, repository },
          grounds: { home, repository },
          defaults: { paths: { [repository]: 'cow' } },
        },
        { files: [], flags: policyOf({ fs: { './x': 'rw' } }) },
      ),
    /"\*" or "\?" in its name/,
  );
});

it('diff tells what opens and what closes', () => {
  using scene = new Scene();
  const before = scene.resolve({
    fs: { '~/a': 'ro' },
    net: { allow: ['a.example'] },
    limits: { cpu: 1 },
  }).policy;
  const after = scene.resolve({
    fs: { '~/a': 'hidden', '~/b': 'rw' },
    net: { deny: ['b.example'] },
    limits: { cpu: 2 },
  }).policy;
  const told = diffPolicies(before, after).map(
    ({ what, direction }) => `${direction} ${what.replace(scene.home, '~')}`,
  );
  assert.deepEqual(told.toSorted(), [
    'closes fs ~/a',
    'closes net.allow',
    'closes net.deny',
    'opens fs ~/b',
    'opens limits.cpu',
  ]);
});

it('patterns: what could not be finished is an error where it hides, and links are not followed', () => {
  using scene = tree();
  for (let at = 0; at < 50; at += 1) scene.write(`./many/${at}/file`, '');
  symlinkSync('/', scene.path('./many/root'));
  const layer = (fs: object) => ({
    origin: 'user' as const,
    isTrusted: true,
    parts: [{ policy: policyOf({ fs }), file: 'test', lineOf: () => undefined }],
  });
  const grounds = { home: scene.home, repository: scene.repository };
  const notes = (fs: object, bounds?: { entriesMax: number; timeMs: number; matchesMax: number }) =>
    expandLayers([layer(fs)], grounds, bounds).notes.map(
      ({ kind, isError }) => `${kind}${isError ? ' error' : ''}`,
    );
  assert.deepEqual(notes({ './**/passwd': 'hidden' }), ['start-time only']);
  const few = { entriesMax: 20, timeMs: 3_000, matchesMax: 150 };
  assert.deepEqual(notes({ './**/x': 'hidden' }, few), ['incomplete error', 'start-time only']);
  assert.deepEqual(notes({ './**/x': 'ro' }, few), ['incomplete', 'start-time only']);
  assert.deepEqual(notes({ './many/*/file': 'deny' }, { ...few, entriesMax: 1_000, matchesMax: 10 }), [
    'incomplete error',
    'start-time only',
  ]);
});

it('a pattern made to be slow is not', () => {
  using scene = new Scene();
  mkdirSync(scene.path(`./${'a'.repeat(200)}`));
  scene.project({ fs: { [`./${'*a'.repeat(100)}b`]: 'hidden' } });
  const began = performance.now();
  scene.resolve();
  assert.ok(performance.now() - began < 1_000);
});

it('extends: cycles, depth and what is not there are errors that name the place', () => {
  using scene = new Scene();
  scene.user({ extends: ['./other.jsonc'] });
  scene.write('~/.config/squash/other.jsonc', { extends: ['./box.jsonc'] });
  assert.throws(() => scene.resolve(), /other\.jsonc:1: "\.\/box\.jsonc" leads back/);
  scene.write('~/.config/squash/other.jsonc', { fs: { '~/a': 'ro' }, limits: { cpu: 1 } });
  scene.user({ extends: ['./other.jsonc'], fs: { '~/a': 'cow' } });
  assert.equal(scene.level('~/a'), 'cow', 'what extends stands above what is extended');
  for (let at = 0; at < 12; at += 1)
    scene.write(`~/.config/squash/deep${at}.jsonc`, { extends: [`./deep${at + 1}.jsonc`] });
  scene.user({ extends: ['./deep0.jsonc'] });
  assert.throws(() => scene.resolve(), /more than 8 files that extend each other/);
  scene.user({ extends: ['builtin:nodes'] });
  assert.throws(() => scene.resolve(), /there are builtin:agent/);
});

it('a box is told at most what the API takes, and no more paths than say something', () => {
  using scene = new Scene();
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`./x${at}`, 'cow']));
  assert.ok(Object.keys(hostPlaces(scene.resolve({ fs: many }).policy).paths).length < 10);
  const different = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`./x${at}`, 'hidden']));
  assert.throws(() => hostPlaces(scene.resolve({ fs: different }).policy), /a box holds 200/);
});
