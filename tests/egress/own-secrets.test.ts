/**
 * Secrets of single sandboxes: two tenants have a secret of the same name each, the installation a third one. Each request
 * holds its own sandbox's value, in clear nothing holds any, and a sandbox's secrets go when it goes.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { SandboxPolicy } from '@squash/contract/egress';
import { squash } from '../support/cli.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';
import { useWorld } from './world/use-world.ts';
import { needsRoot, worldLayers } from './world/world.ts';

const run = promisify(execFile);
const host = 'secret.allowed.test';
const shared = { value: 'sk-value-of-the-installation', placeholder: 'sk-placeholder-of-all' };
const values = { one: 'sk-value-of-tenant-one-Zx81', two: 'sk-value-of-tenant-two-Qp57' } as const;
const all = [shared.value, ...Object.values(values)];
const allow = { allow_net: ['*.allowed.test'] };
const world = useWorld(
  {
    secrets: {
      OPENAI_API_KEY: { ...shared, allowed_hosts: [host] },
      OTHER_KEY: { placeholder: 'other-placeholder', value: 'other-value-01', allowed_hosts: [host] },
    },
  },
  async (to) => {
    for (const [id, value] of Object.entries(values)) {
      await to.create(id, { ...allow, own_secrets: { OPENAI_API_KEY: { value, allowed_hosts: [host] } } });
    }
    await to.create('plain', allow);
  },
);

const call = (key: string, path = '/reflect'): string =>
  `curl -sS --max-time 10 -H "Authorization: Bearer ${key}" https://${host}${path}`;

/** What servers were told as `Authorization` since then. */
async function told(mark: number): Promise<readonly unknown[]> {
  return (await world().requestsSince(mark)).map(({ headers }) => headers['authorization']);
}

/** Of the data directory, relative to it; modules and their trees are what it was built from. */
async function filesWith(texts: readonly string[]): Promise<readonly string[]> {
  const { dataDir } = world().daemon;
  const words = texts.flatMap((text) => ['-e', text]);
  const rest = ['--exclude-dir=layers', '--exclude-dir=modules', '--devices=skip', ...words, '.'];
  const { stdout } = await run('grep', ['-rlF', ...rest], { cwd: dataDir });
  return stdout
    .trim()
    .split('\n')
    .map((path) => path.slice('./'.length))
    .sort();
}

async function policyOf(id: string): Promise<SandboxPolicy> {
  return (await world().daemon.call('GET', `/v1/sandboxes/${id}/policy`)) as SandboxPolicy;
}

async function replaceEgress(): Promise<void> {
  const egress = processesOf(world().daemon.dataDir).find(({ command }) =>
    command.includes('egress/src/main.ts'),
  );
  process.kill(egress?.pid ?? assert.fail('no egress process'), 'SIGKILL');
  await waitFor(
    'the next egress process',
    async () => (await world().exec('one', call('x'))).exit_code === 0,
  );
}

async function expectOwn(): Promise<void> {
  for (const [id, value] of Object.entries({ ...values, plain: shared.value })) {
    const mark = await world().mark();
    const placeholder = (await world().output(id, 'echo $OPENAI_API_KEY')).trim();
    const answer = await world().output(id, call('$OPENAI_API_KEY'));
    assert.deepEqual(await told(mark), [`Bearer ${value}`]);
    assert.ok(answer.includes(placeholder), answer);
    for (const each of all) assert.ok(!answer.includes(each), answer);
  }
}

test('each sandbox sends its own value, and has it turned back', { skip: needsRoot }, async () => {
  await expectOwn();
  const mark = await world().mark();
  await world().output('one', call('$OTHER_KEY'));
  assert.deepEqual(await told(mark), ['Bearer other-value-01']);
});

test('a placeholder of another sandbox, or of the secret it took the place of, means nothing', {
  skip: needsRoot,
}, async () => {
  const placeholder = (await world().output('one', 'echo $OPENAI_API_KEY')).trim();
  const mark = await world().mark();
  await world().output('two', call(placeholder));
  await world().output('plain', call(placeholder));
  await world().output('one', call(shared.placeholder));
  assert.deepEqual(
    await told(mark),
    [placeholder, placeholder, shared.placeholder].map((key) => `Bearer ${key}`),
  );
});

test('a value is in no answer, log, database or file but its own', { skip: needsRoot }, async () => {
  const { daemon } = world();
  const shown = await policyOf('one');
  assert.deepEqual(shown.own_secrets, ['OPENAI_API_KEY']);
  assert.deepEqual(shown.own_secret_hosts, { OPENAI_API_KEY: [host] });
  const { stdout } = await squash(daemon, ['policy', 'show', 'one']);
  assert.match(String(stdout), /^own secrets: OPENAI_API_KEY \(secret\.allowed\.test\)$/m);
  const answers = [
    '/cgi-bin/api/sandboxes',
    '/cgi-bin/api/sandboxes/one',
    '/v1/secrets',
    '/v1/egress/decisions',
  ];
  const said = await Promise.all(
    answers.map(async (path) => JSON.stringify((await daemon.request('GET', path)).json)),
  );
  await daemon.call('POST', '/cgi-bin/api/sandboxes/one/snapshot', { label: 'one' });
  const found = await filesWith(Object.values(values));
  assert.deepEqual(found, ['secrets/one.json', 'secrets/two.json']);
  assert.equal((await stat(join(daemon.dataDir, 'secrets/one.json'))).mode & 0o777, 0o600);
  for (const value of Object.values(values)) {
    for (const text of [...said, daemon.output]) assert.ok(!text.includes(value));
  }
});

test('own secrets outlive the egress process and the daemon', { skip: needsRoot }, async () => {
  const { daemon } = world();
  await replaceEgress();
  await expectOwn();
  await daemon.kill();
  await daemon.start();
  await expectOwn();
});

test('a restore keeps them, a removal takes them, and a next sandbox of the name has none', {
  skip: needsRoot,
}, async () => {
  const { daemon } = world();
  const own = { TOKEN: { value: 'value-of-the-short-lived', allowed_hosts: [host] } };
  await world().create('short', { ...allow, own_secrets: own });
  const path = '/cgi-bin/api/sandboxes/short';
  await daemon.call('POST', `${path}/snapshot`, { label: 'it' });
  await daemon.call('POST', `${path}/restore`, { label: 'it' });
  const mark = await world().mark();
  await world().output('short', call('$TOKEN'));
  assert.deepEqual(await told(mark), ['Bearer value-of-the-short-lived']);
  await daemon.call('DELETE', path);
  assert.deepEqual((await readdir(join(daemon.dataDir, 'secrets'))).sort(), ['one.json', 'two.json']);
  await world().create('short', allow);
  assert.equal(await world().output('short', 'echo "<$TOKEN>"'), '<>\n');
});

test('a sandbox whose file is gone reaches nothing, rather than sending the installation’s value', {
  skip: needsRoot,
}, async () => {
  const { daemon } = world();
  const own = { OPENAI_API_KEY: { value: 'value-that-is-lost', allowed_hosts: [host] } };
  await world().create('lost', { ...allow, own_secrets: own });
  const kept = await readFile(join(daemon.dataDir, 'secrets/lost.json'), 'utf8');
  await daemon.kill();
  await rm(join(daemon.dataDir, 'secrets/lost.json'));
  await daemon.start();
  await replaceEgress();
  const mark = await world().mark();
  assert.match(await world().output('lost', call('$OPENAI_API_KEY')), /no_policy/);
  assert.deepEqual(await told(mark), []);
  const reason = /lost\.json\\?" is missing: put it back, or remove the sandbox/;
  assert.match(daemon.output, reason);
  assert.match((await squash(daemon, ['policy', 'show', 'lost'])).stderr, reason);
  const { problems } = await daemon.call('GET', '/cgi-bin/health');
  assert.match(problems[0].message, reason);
  await writeFile(join(daemon.dataDir, 'secrets/lost.json'), kept, { mode: 0o600 });
  await run('chown', [
    '--reference',
    join(daemon.dataDir, 'squash.db'),
    join(daemon.dataDir, 'secrets/lost.json'),
  ]);
  await waitFor('the rules to be in force', async () => (await policyOf('lost')).in_force);
});

test('a value that can not be used is refused without being said', { skip: needsRoot }, async () => {
  const { daemon } = world();
  for (const [secret, why] of [
    [{ value: 'ünusable-value-1', allowed_hosts: [host] }, /value: visible ASCII/],
    [{ value: 'short', allowed_hosts: [host] }, /own_secrets/],
    [{ value: 'fine-value-in-itself', allowed_hosts: ['*'] }, /allowed_hosts/],
    [{ value: 'fine-value-in-itself' }, /allowed_hosts/],
  ] as const) {
    const { status, json } = await daemon.request('POST', '/cgi-bin/api/sandboxes', {
      id: 'refused',
      own_secrets: { KEY: secret },
    });
    const text = JSON.stringify(json);
    assert.equal(status, 400, text);
    assert.match(text, why);
    assert.ok(!text.includes(secret.value), text);
  }
});

test('the command line reads a value from a variable, a file or its input, and never takes it as a word', {
  skip: needsRoot,
}, async () => {
  const { daemon } = world();
  const create = (id: string, secret: string, options: Parameters<typeof squash>[2] = {}) =>
    squash(daemon, ['create', id, '--layers', worldLayers.join(','), '--secret', secret], options);
  const value = 'value-by-command-line';
  const file = join(world().directory, 'key.txt');
  await writeFile(file, `${value}\n`);
  for (const [id, secret, options] of [
    ['by-variable', `KEY=env:MY_KEY@${host}`, { env: { MY_KEY: value } }],
    ['by-name', `KEY=env@${host},www.allowed.test`, { env: { KEY: value } }],
    ['by-file', `KEY=file:${file}@${host}`, {}],
    ['by-input', `KEY=-@${host}`, { input: `${value}\n` }],
  ] as const) {
    const made = await create(id, secret, options);
    assert.equal(made.code, 0, made.stderr);
    const mark = await world().mark();
    await world().output(id, call('$KEY'));
    assert.deepEqual(await told(mark), [`Bearer ${value}`], id);
    await daemon.call('DELETE', `/cgi-bin/api/sandboxes/${id}`);
  }
  for (const [wrong, why] of [
    [`KEY=${value}@${host}`, /takes "env@HOST"/],
    [`KEY=${value}`, /takes "env@HOST"/],
    ['KEY=env:MY_KEY', /KEY=… names no host/],
    ['KEY=env', /KEY=… names no host/],
    [`KEY=file:${file}`, /KEY=… names no host/],
    ['KEY=-', /KEY=… names no host/],
    [`KEY=env:NOT_THERE@${host}`, /NOT_THERE for secret KEY is not set/],
  ] as const) {
    const { code, stderr } = await create('by-word', wrong);
    assert.equal(code, 2, stderr);
    assert.match(stderr, why);
    assert.ok(!stderr.includes(value), stderr);
  }
  const both = [`KEY=-@${host}`, `OTHER=-@${host}`].flatMap((word) => ['--secret', word]);
  const { code, stderr } = await squash(daemon, ['create', 'twice', ...both], { input: value });
  assert.deepEqual([code, /KEY and OTHER can't both be read from it/.test(stderr)], [2, true], stderr);
  const named = await create('by-bad-name', `1bad=file:${file}@${host}`);
  assert.match(named.stderr, /a secret’s name is that of an environment variable/);
});
