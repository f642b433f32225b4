/** `squash mounts`: what is checked and explained by a daemon, and NanoClaw's list as one of ours. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { hostDirectoriesSchema } from '@squash/contract/host-directory';
import { squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';

const stack = new AsyncDisposableStack();
let daemon: TestDaemon;
let host: string;

before(async () => {
  host = realpathSync(mkdtempSync(join(tmpdir(), 'squash-mounts-')));
  stack.defer(() => rmSync(host, { recursive: true }));
  mkdirSync(join(host, 'projects'));
  symlinkSync(join(host, 'projects'), join(host, 'link'));
  const entries = { directories: [{ path: '/srv/none', description: 'not there' }], blocked: ['payroll'] };
  daemon = stack.use(await TestDaemon.start({ files: { 'host-directories.json': JSON.stringify(entries) } }));
});

after(() => stack.disposeAsync());

interface Told {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

async function mounts(...words: readonly string[]): Promise<Told> {
  const { code, stdout, stderr } = await squash(daemon, ['mounts', ...words]);
  return { code, stdout: stdout.toString(), stderr: stderr.toString() };
}

test('squash mounts check says why not in one line, explain what each rule says, and both exit with 1', async () => {
  const { code, stdout } = await mounts('check', '/srv/none:/data', '--tier', 'untrusted');
  assert.deepEqual([code, stdout], [1, 'refused: there is no "/srv/none" (not_found)\n']);
  const of = async (...words: readonly string[]): Promise<string> => {
    const told = await mounts('explain', ...words);
    assert.equal(told.code, 1);
    return told.stdout;
  };
  const writing = await of('/srv/none:/data:rw', '--tier', 'untrusted');
  assert.match(
    writing,
    /^place: +allowed .*\ntier: +refused {2}untrusted: mounts = ro; .* \(tier_forbids\)\n$/,
  );
  assert.match(
    await of('/srv/none:rw'),
    /^path: .*\nlist: .*\(not there\)\nowner: .*\nmode: +refused .*\(read_only\)\n$/,
  );
  assert.match(await of('/srv/none/Payrolls'), /blocked: +refused .*"payroll" \(blocked_name\)\n$/);
  assert.match(await of('/srv/none:/workspace/group/x', '--tier', 'main'), /^place: +refused .*group/);
  const json = JSON.parse((await mounts('check', '/srv/none', '--json')).stdout);
  assert.equal(json.reason, 'not_found');
});

async function imported(value: unknown): Promise<Told> {
  const file = join(host, 'mount-allowlist.json');
  writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value));
  return await mounts('import', file);
}

test('squash mounts import prints a list that a daemon takes, with what links lead to and the original’s own names', async () => {
  const { code, stdout, stderr } = await imported({
    allowedRoots: [
      { path: join(host, 'link'), allowReadWrite: true, description: 'work' },
      { path: `${join(host, 'projects')}/../gone/`, readOnly: false },
      { path: '/srv/both', allowReadWrite: false, readOnly: false },
      { path: '/srv/text', allowReadWrite: 'true' },
      { path: '~' },
      { path: 'relative' },
      'a text',
      { description: 'no path' },
    ],
    blockedPatterns: ['password', '.ssh'],
    nonMainReadOnly: false,
    extra: 1,
  });
  assert.equal(code, 0, stderr);
  const { directories, blocked } = hostDirectoriesSchema.parse(JSON.parse(stdout));
  assert.deepEqual(directories.map(({ path, mode_max }) => `${path} ${mode_max}`).slice(0, 4), [
    `${join(host, 'projects')} rw`,
    `${join(host, 'gone')} rw`,
    '/srv/both ro',
    '/srv/text ro',
  ]);
  assert.deepEqual([directories.length, directories[0]?.description], [5, 'work']);
  assert.ok(directories[4]?.path.startsWith('/') && directories[4].mode_max === 'ro');
  assert.deepEqual([blocked.length, blocked.at(-1), blocked.includes('id_rsa')], [18, 'password', true]);
  for (const told of [
    /allowedRoots\[0\]: ".*link" is a link, and leads to ".*projects"/,
    /allowedRoots\[1\]: ".*gone" is not there/,
    /left out: allowedRoots\[5\]/,
    /left out: allowedRoots\[6\]/,
    /left out: allowedRoots\[7\]/,
    /left out: extra/,
    /trusted and untrusted read only/,
  ])
    assert.match(stderr, told);
});

test('squash mounts import prints nothing where the original would block everything', async () => {
  const whole = { allowedRoots: [], blockedPatterns: [], nonMainReadOnly: true };
  assert.equal((await imported(whole)).code, 0);
  for (const value of [
    '{',
    '[]',
    'null',
    {},
    { ...whole, allowedRoots: {} },
    { ...whole, blockedPatterns: 'x' },
    { ...whole, blockedPatterns: [''] },
    { ...whole, blockedPatterns: [1] },
    { ...whole, nonMainReadOnly: 'yes' },
    { ...whole, blockedPatterns: ['x'.repeat(101)] },
    { ...whole, allowedRoots: [{ path: '/a\nb' }] },
  ]) {
    const { code, stdout } = await imported(value);
    assert.deepEqual([code === 0, stdout], [false, ''], JSON.stringify(value));
  }
  assert.match(await squashOk(daemon, ['mounts', 'import', '--help']), /mount-allowlist\.json/);
});
