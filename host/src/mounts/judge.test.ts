/** The judge over host directories: a row for each reason, and what holds for every list and every wish. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostDirectories, HostDirectoryEntry } from '@squash/contract/host-directory';
import type { HostWish } from '@squash/contract/mount-check';
import fc from 'fast-check';
import {
  credentialNames,
  type Found,
  judgeHostDirectory,
  type RefusalReason,
  type Surroundings,
} from './judge.ts';

const around: Surroundings = {
  own: ['/var/lib/squash', '/opt/squash'],
  ids: { first: 1, count: 65_536 },
  isMapped: true,
};
const directories: readonly HostDirectoryEntry[] = [
  { path: '/srv/data', mode_max: 'ro', shows: [], hides: [] },
  { path: '/srv/data/out', mode_max: 'rw', shows: ['.env'], hides: ['.npmrc', 'vault'] },
  { path: '/home/alice', mode_max: 'rw', owners: ['alice'], shows: [], hides: [] },
];
const list = listOf(directories, ['Payroll', 'token']);
const everything = listOf([{ path: '/', mode_max: 'rw', shows: [], hides: [] }]);
const open: Found = { type: 'directory', uid: 65_534, gid: 65_534, mode: 0o755, names: [] };
const theirs: Found = { type: 'directory', uid: 1, gid: 1, mode: 0o700, names: [] };

function words(line: string): readonly string[] {
  return line.split(' ');
}

function listOf(entries: readonly HostDirectoryEntry[], blocked: string[] = []): HostDirectories {
  return { directories: [...entries], blocked };
}

interface Row {
  readonly path: string;
  readonly mode?: 'rw';
  readonly owner?: string;
  readonly found?: Found;
  readonly says: RefusalReason | 'allow' | 'look';
}

const rows: readonly Row[] = [
  { path: '/srv/data', says: 'look' },
  { path: '/srv/data', found: open, says: 'allow' },
  { path: '/srv/data/deep/er', found: open, says: 'allow' },
  { path: '/srv/data', mode: 'rw', found: theirs, says: 'read_only' },
  { path: '/srv/data/out', mode: 'rw', found: theirs, says: 'allow' },
  { path: '/srv/data/out', mode: 'rw', found: open, says: 'not_writable' },
  { path: '/srv/data/out', mode: 'rw', found: { ...open, mode: 0o777 }, says: 'not_writable' },
  { path: '/srv/data/out', found: { ...theirs, names: ['.env'] }, says: 'allow' },
  { path: '/srv/data/out', found: { ...theirs, names: ['.env', '.npmrc'] }, says: 'allow' },
  { path: '/srv/data/out', found: { ...theirs, names: ['.npmrc', '.netrc'] }, says: 'credentials' },
  { path: '/srv/data', found: { ...open, names: ['.env'] }, says: 'credentials' },
  { path: '/srv/data/out/.npmrc', says: 'blocked_name' },
  { path: '/srv/data/out/deep/vault/x', says: 'blocked_name' },
  { path: '/srv/data/out/vaults', says: 'look' },
  { path: '/srv/data', found: { ...open, names: ['.ssh'] }, says: 'credentials' },
  { path: '/srv/data', found: { ...open, names: ['docker.sock'] }, says: 'container_socket' },
  { path: '/srv/data', found: { ...open, mode: 0o750 }, says: 'not_readable' },
  { path: '/srv/data/x', found: { type: 'link', at: '/srv/data/x' }, says: 'link_in_path' },
  { path: '/srv/data/x', found: { type: 'missing', at: '/srv/data/x' }, says: 'not_found' },
  { path: '/srv/data/x', found: { type: 'closed', at: '/srv/data' }, says: 'not_readable' },
  { path: '/srv/data/x', found: { type: 'other', at: '/srv/data/x' }, says: 'not_a_directory' },
  { path: '/srv/database', says: 'not_allowed' },
  { path: '/srv', says: 'not_allowed' },
  { path: '/', says: 'not_allowed', found: open },
  { path: '/srv/data/../../etc', says: 'path_malformed' },
  { path: '/srv/data/', says: 'path_malformed' },
  { path: '/srv//data', says: 'path_malformed' },
  { path: '/srv/data/./x', says: 'path_malformed' },
  { path: 'srv/data', says: 'path_malformed' },
  { path: '', says: 'path_malformed' },
  { path: '/srv/data/a\nb', says: 'path_malformed' },
  { path: '/srv/data/..x', says: 'look' },
  { path: '/srv/data/PAYROLL', says: 'blocked_name' },
  { path: '/srv/data/old-payrolls/x', says: 'blocked_name' },
  { path: '/srv/data/tokens', says: 'blocked_name' },
  ...words(
    '.gpg credentials credentials.json .env.local id_rsa id_ED25519 private_key .secret .config/squash',
  ).map((name): Row => ({ path: `/srv/data/${name}`, says: 'credentials' })),
  ...words('credentials id_rsa .secret .pgpass').map(
    (name): Row => ({ path: '/srv/data', found: { ...open, names: [name] }, says: 'credentials' }),
  ),
  { path: '/srv/data/secretary', says: 'look' },
  { path: '/srv/data/my.envoy', says: 'look' },
  { path: '/home/alice/p', owner: 'alice', says: 'look' },
  { path: '/home/alice/p', owner: 'bob', says: 'owner_not_allowed' },
  { path: '/home/alice/.ssh', owner: 'alice', says: 'credentials' },
  { path: '/home/alice/.SSH/keys', owner: 'alice', says: 'credentials' },
  { path: '/home/alice/.config/gcloud/x', owner: 'alice', says: 'credentials' },
  { path: '/home/alice/.config', owner: 'alice', says: 'look' },
  { path: '/home/alice/.env.local', owner: 'alice', says: 'credentials' },
  { path: '/', owner: 'root', says: 'system_path' },
  { path: '/proc/self/fd/3', owner: 'root', says: 'system_path' },
  { path: '/var', owner: 'root', says: 'system_path' },
  { path: '/etc', owner: 'root', says: 'system_path' },
  { path: '/run/docker', owner: 'root', says: 'system_path' },
  { path: '/var/lib/squash/volumes', owner: 'root', says: 'own_path' },
  { path: '/opt', owner: 'root', says: 'own_path' },
];

for (const { path, mode = 'ro', owner = 'carol', found, says } of rows) {
  const is = found === undefined ? 'nothing yet' : `${found.type} ${JSON.stringify(found)}`;
  test(`the judge says ${says} to ${JSON.stringify(path)} ${mode} for ${owner} when there is ${is}`, () => {
    const { verdict, steps } = judgeHostDirectory(owner === 'root' ? everything : list, around, {
      wish: { path, mode, owner },
      ...(found === undefined ? {} : { found }),
    });
    assert.equal(verdict.verdict === 'refuse' ? verdict.reason : verdict.verdict, says);
    const last = steps.at(-1);
    assert.equal(last?.reason, verdict.verdict === 'refuse' ? says : null);
    assert.ok(steps.slice(0, -1).every(({ allowed }) => allowed));
  });
}

test('the judge hides what an entry names also from whoever takes what lies below or above it, but where the nearest one shows it', () => {
  const plain: Omit<HostDirectoryEntry, 'path'> = { mode_max: 'rw', shows: [], hides: [] };
  const hiding = listOf([
    { ...plain, path: '/srv' },
    { ...plain, path: '/srv/app', mode_max: 'ro', hides: ['.env', 'a/b/key'] },
    { ...plain, path: '/srv/app/tests', shows: ['.env'] },
    { ...plain, path: '/srv/bobs', owners: ['bob'], hides: ['key'] },
  ]);
  for (const [path, mode, hides] of [
    ['/srv/app', 'ro', ['.env', 'a/b/key']],
    ['/srv/app', 'rw', ['.env', 'a/b/key']],
    ['/srv/app/a', 'ro', ['.env', 'a/b/key', 'b/key']],
    ['/srv/app/a/b', 'rw', ['key']],
    ['/srv/app/x/a/b', 'ro', ['.env', 'a/b/key', 'key']],
    ['/srv/app/tests', 'ro', []],
    ['/srv', 'ro', ['app/.env', 'app/a/b/key']],
  ] as const) {
    const wish = { path, mode, owner: 'carol' };
    const { verdict } = judgeHostDirectory(hiding, around, { wish, found: theirs });
    assert.deepEqual(verdict, { verdict: 'allow', hides }, `${path} ${mode}`);
  }
});

const part = fc.oneof(
  fc.constantFrom(
    'srv',
    'data',
    'home',
    'alice',
    'etc',
    'var',
    'run',
    '..',
    '.',
    '',
    '.ssh',
    '.Aws',
    'proc',
    'x',
  ),
  fc.string({ maxLength: 6 }),
);
const path = fc.array(part, { maxLength: 6 }).map((parts) => `/${parts.join('/')}`);
const entry = fc.record({
  path: path.filter((each) => !/\/(\.{0,2})(\/|$)/.test(each)),
  mode_max: fc.constantFrom('ro' as const, 'rw' as const),
  shows: fc.constant<string[]>([]),
  hides: fc.constant<string[]>([]),
});
const wish = fc.record({
  path,
  mode: fc.constantFrom('ro' as const, 'rw' as const),
  owner: fc.constant('carol'),
});

test('what the judge allows lies in a listed directory of that mode and names no credential, whatever is asked', () => {
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 4 }), wish, (entries, asked) => {
      const { verdict } = judgeHostDirectory(listOf(entries), around, { wish: asked, found: theirs });
      if (verdict.verdict !== 'allow') return;
      const named = `${asked.path}/`;
      assert.ok(
        entries.some(
          (each) => named.startsWith(`${each.path}/`) && (asked.mode === 'ro' || each.mode_max === 'rw'),
        ),
      );
      assert.ok(!/\/\.{0,2}\//.test(named.slice(1)));
      assert.ok(credentialNames.every((name) => !named.toLowerCase().includes(`/${name}/`)));
    }),
    { numRuns: 2_000 },
  );
});

function verdictOf(entries: readonly HostDirectoryEntry[], asked: HostWish): string {
  return judgeHostDirectory(listOf(entries), around, { wish: asked, found: theirs }).verdict.verdict;
}

test('the judge allows no more when an entry is taken from the list', () => {
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 4 }), wish, (entries, asked) => {
      const whole = verdictOf(entries, asked);
      const less = verdictOf(entries.slice(1), asked);
      assert.ok(whole === 'allow' || less !== 'allow');
    }),
  );
});

test('the judge asks nobody to look at what is not listed', () => {
  fc.assert(
    fc.property(wish, (asked) => {
      const only = listOf([{ path: '/only/here', mode_max: 'rw', shows: [], hides: [] }]);
      const { verdict } = judgeHostDirectory(only, around, {
        wish: asked,
      });
      assert.ok(verdict.verdict === 'refuse' || asked.path.startsWith('/only/here'));
    }),
  );
});
