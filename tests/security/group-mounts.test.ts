/**
 * Directories of the host in groups of different trust: what is refused when a group is made, what its agents try with what they have, and
 * what is changed between two runs. What a rule refuses is asked again where the rule is off, and has to be had there.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { MountCheckAnswer } from '@squash/contract/mount-check';
import type { Tier } from '@squash/contract/tiers';
import { agentTests, GroupScene } from '../support/group-scene.ts';
import { ownedPrefix } from '../support/owned-directory.ts';

/** The agent's, uid 1000 of a sandbox: docs/volumes.md. */
const agent = 0x70000001 + 1_000;
const place = '/workspace/extra/shared';
const list = 'host-directories.json';

const stack = new AsyncDisposableStack();
/** Of a project, in files that the list hides. */
const keys = { '.env': 'KEY=1', '.ssh/id': 'KEY=2', 'config/keys.json': 'KEY=3' };
/** What the rules hold in, and where those of the list are off. */
let scene: GroupScene;
let loose: GroupScene;
let host: string;
let made = 0;

function directory(name: string, files: Readonly<Record<string, string>> = {}): string {
  const path = join(host, name);
  mkdirSync(path, { recursive: true, mode: 0o755 });
  for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
  giveToAgents(path);
  return path;
}

/** As docs/groups.md tells the operator to. */
function giveToAgents(path: string): void {
  if (process.getuid?.() === 0) chownSync(path, agent, agent);
  else chmodSync(path, 0o777);
}

before(async () => {
  host = mkdtempSync(join(tmpdir(), ownedPrefix('test')));
  stack.defer(() => rmSync(host, { recursive: true, force: true }));
  chmodSync(host, 0o755);
  for (const name of ['secret', 'shared', 'books', 'work', 'work/old-Payrolls', 'alices', 'shared/sub'])
    directory(name, { key: `${name} of the host\n` });
  directory('work/project', { '.env': 'KEY=1' });
  for (const name of ['hiding', 'hiding/.ssh', 'hiding/config']) directory(name);
  for (const [name, key] of Object.entries({ ...keys, file: 'of the project' })) {
    writeFileSync(join(host, 'hiding', name), key);
    giveToAgents(join(host, 'hiding', name));
  }
  directory('work/home/.ssh', { id: 'key' });
  directory('work/keys', { credentials: 'key' });
  symlinkSync(join(host, 'secret'), join(host, 'work', 'link'));
  const strict = {
    directories: [
      { path: join(host, 'shared'), mode_max: 'rw' },
      { path: join(host, 'work'), mode_max: 'rw' },
      { path: join(host, 'books') },
      { path: join(host, 'hiding'), mode_max: 'rw', hides: ['.env', '.ssh', 'config/keys.json'] },
      { path: join(host, 'alices'), owners: ['alice'] },
    ],
    blocked: ['payroll'],
  };
  const everything = [{ path: host, mode_max: 'rw', shows: ['.env', '.ssh', 'credentials'] }];
  [scene, loose] = (await Promise.all(
    [strict, everything].map(
      async (entries) => await GroupScene.start({ files: { [list]: JSON.stringify(entries) } }),
    ),
  )) as [GroupScene, GroupScene];
  stack.use(scene);
  stack.use(loose);
  for (const each of [scene, loose]) {
    await each.call('PUT', '/v1/tiers/open', await tierWith(each, { mounts: 'rw' }));
    await each.call('PUT', '/v1/tiers/silent', await tierWith(each, { mounts: undefined }));
  }
});

after(() => stack.disposeAsync());

async function tierWith(where: GroupScene, rows: object): Promise<object> {
  const { items } = await where.call<{ items: Tier[] }>('GET', '/v1/tiers');
  const {
    name: _name,
    built_in: _is,
    ...matrix
  } = items.find(({ name }) => name === 'untrusted') ?? assert.fail();
  return { ...matrix, ...rows };
}

interface Wish {
  readonly tier: string;
  readonly host: string;
  readonly mode?: 'ro' | 'rw';
  readonly path?: string;
}

/** The code and sentence of a refusal; undefined: the group is there. */
async function asked(
  where: GroupScene,
  { tier, host: at, mode = 'ro', path = place }: Wish,
): Promise<string | undefined> {
  made += 1;
  const body = { name: `g${made}`, tier, command: ['cat'], mounts: [{ host: at, path, mode }] };
  const { status, json } = await where.daemon.request('POST', '/v1/groups', body);
  return status === 201 ? undefined : `${json.code} ${json.detail}`;
}

async function checked(where: GroupScene, wish: Wish): Promise<MountCheckAnswer> {
  return await where.call('POST', '/v1/mounts/check', { path: place, ...wish });
}

interface Row extends Omit<Wish, 'host'> {
  readonly of: string;
  readonly reason: string;
  /** Without the rule it is had: with another tier, or by the list that has everything. */
  readonly off?: 'list' | 'open' | 'main' | 'untrusted';
}

const rows: readonly Row[] = [
  { tier: 'untrusted', of: 'shared', mode: 'rw', reason: 'tier_forbids', off: 'open' },
  { tier: 'trusted', of: 'shared', mode: 'rw', reason: 'tier_forbids', off: 'main' },
  { tier: 'silent', of: 'shared', reason: 'tier_forbids', off: 'untrusted' },
  { tier: 'main', of: 'books', mode: 'rw', reason: 'read_only', off: 'list' },
  { tier: 'main', of: 'secret', reason: 'not_allowed', off: 'list' },
  { tier: 'main', of: '', reason: 'not_allowed', off: 'list' },
  { tier: 'main', of: 'alices', reason: 'owner_not_allowed', off: 'list' },
  { tier: 'main', of: 'work/old-Payrolls', reason: 'blocked_name', off: 'list' },
  { tier: 'main', of: 'work/project', reason: 'credentials', off: 'list' },
  { tier: 'main', of: 'work/keys', reason: 'credentials', off: 'list' },
  { tier: 'main', of: 'work/home', reason: 'credentials', off: 'list' },
  { tier: 'main', of: 'work/home/.ssh', reason: 'credentials' },
  { tier: 'main', of: 'work/home/.SSH', reason: 'credentials' },
  { tier: 'main', of: 'work/link', reason: 'link_in_path' },
  { tier: 'main', of: 'work/link/deeper', reason: 'link_in_path' },
  { tier: 'main', of: 'work/none', reason: 'not_found' },
  { tier: 'main', of: 'work/project/.env', reason: 'credentials' },
  { tier: 'main', of: 'books/key', reason: 'not_a_directory' },
];

for (const { of, reason, off, ...wish } of rows) {
  const what = `"${of}" ${wish.mode ?? 'ro'} for ${wish.tier}`;
  test(`${what} is refused by ${reason} when the group is made, and the check says so before`, async () => {
    const full = { ...wish, host: join(host, of) };
    const refusal = await asked(scene, full);
    assert.match(refusal ?? 'made', new RegExp(reason));
    const { allowed, reason: told, steps } = await checked(scene, full);
    assert.deepEqual([allowed, told, steps.at(-1)?.reason], [false, reason, reason]);
    // What is told to a group's maker is the sentence of the rule.
    assert.ok(refusal?.includes(steps.at(-1)?.sentence ?? '-'), refusal);
  });
  if (off === undefined) continue;
  test(`${what} is had where ${reason} is off`, async () => {
    const where = off === 'list' ? loose : scene;
    const full = { ...wish, tier: off === 'list' ? wish.tier : off, host: join(host, of) };
    assert.equal(await asked(where, full), undefined);
    assert.equal((await checked(where, full)).allowed, true);
  });
}

test('a place in the sandbox is refused when it is the folder’s, the kernel’s or another mount’s', async () => {
  const shared = join(host, 'shared');
  for (const path of [
    '/workspace/group',
    '/workspace/group/x',
    '/workspace/session',
    '/workspace/global',
    '/workspace/session/.claude',
    '/workspace',
    '/proc/1',
    '/sys',
    '/dev/shm',
    '/etc/resolv.conf',
    '/',
    'extra',
    '/a/../b',
    '/a//b',
    '/a\n',
  ]) {
    const wish = { tier: 'main', host: shared, path };
    assert.match((await asked(scene, wish)) ?? 'made', /^invalid_request /, path);
    const { reason, steps } = await checked(scene, wish);
    assert.deepEqual([reason, steps.at(-1)?.rule], ['place_refused', 'place'], path);
  }
  for (const [one, other] of [
    [place, place],
    [place, `${place}/x`],
    [`${place}/x/y`, place],
  ])
    assert.equal(
      await scene.refused('POST', '/v1/groups', {
        name: 'twice',
        tier: 'main',
        command: ['cat'],
        mounts: [
          { host: shared, path: one },
          { host: join(host, 'books'), path: other },
        ],
      }),
      'invalid_request',
    );
  assert.equal(await asked(scene, { tier: 'main', host: shared, path: '/workspace/grouped' }), undefined);
});

test('a place is refused that the adapter of a profile makes empty', async () => {
  const body = { name: 'adapted', tier: 'main', command: ['cat'] };
  const refused = async (profile: string | null, path: string): Promise<string | undefined> => {
    const mounts = [{ host: join(host, 'shared'), path, mode: 'rw' }];
    const { json, status } = await scene.daemon.request('POST', '/v1/groups', { ...body, profile, mounts });
    if (status < 400) await scene.call('DELETE', '/v1/groups/adapted');
    return status < 400 ? undefined : (json as { readonly code: string }).code;
  };
  for (const [profile, path] of [
    ['nanoclaw-v1', '/workspace/ipc'],
    ['nanoclaw-v1', '/workspace/ipc/messages'],
    ['nanoclaw-v1', '/home/node/.claude'],
    ['nanoclaw-v1', '/home/node/.claude/projects'],
    ['nanoclaw-v1', '/home'],
    ['nanoclaw-v2', '/workspace/agent'],
    ['nanoclaw-v2', '/home/node'],
  ] as const) {
    assert.equal(await refused(profile, path), 'invalid_request', `${profile} ${path}`);
    if (path === '/workspace/ipc') assert.equal(await refused(null, path), undefined);
  }
  for (const path of ['/workspace/extra/data', '/home/node/src', '/workspace/project'])
    assert.equal(await refused('nanoclaw-v1', path), undefined, path);
});

test('a check names each rule in order, and looks at nothing that is not listed', async () => {
  const { allowed, steps } = await checked(scene, { tier: 'untrusted', host: join(host, 'books') });
  assert.equal(allowed, true);
  assert.deepEqual(
    steps.map(({ rule }) => rule),
    'place tier path list owner mode blocked system own credentials directory contents rights'.split(' '),
  );
  const there = await checked(scene, { tier: 'main', host: join(host, 'secret') });
  const nowhere = await checked(scene, { tier: 'main', host: join(host, 'nowhere') });
  assert.deepEqual(there.steps, nowhere.steps);
  assert.equal(
    await scene.refused('POST', '/v1/mounts/check', { host: '/srv', tier: 'nobodys' }),
    'tier_not_found',
  );
});

const agents = agentTests(() => scene);

interface Attack {
  readonly name: string;
  readonly script: string;
  readonly succeeded: (out: string) => boolean;
  /** Who may write lets it through. */
  readonly rule?: true;
}

const wrote = (name: string) => (): boolean => existsSync(join(host, 'shared', name));
const attacks: readonly Attack[] = [
  { name: 'writes a file', script: `echo x >${place}/written`, succeeded: wrote('written'), rule: true },
  {
    name: 'writes to a file that is there',
    script: `echo changed >>${place}/mine`,
    succeeded: () => readFileSync(join(host, 'shared', 'mine'), 'utf8').includes('changed'),
    rule: true,
  },
  {
    name: 'removes a file',
    script: `rm -f ${place}/removed`,
    succeeded: () => !wrote('removed')(),
    rule: true,
  },
  { name: 'moves a file', script: `mv ${place}/moved ${place}/away`, succeeded: wrote('away'), rule: true },
  {
    name: 'makes a link',
    script: `ln -s /etc ${place}/linked`,
    succeeded: () => readdirSync(join(host, 'shared')).includes('linked'),
    rule: true,
  },
  {
    name: 'mounts it for writing',
    script: `mount -o remount,rw ${place}; mount -o remount,bind,rw ${place}; unshare -rm mount -o remount,bind,rw ${place}; unshare -rm sh -c 'mount -o bind ${place} /mnt; echo x >/mnt/remounted'`,
    succeeded: wrote('remounted'),
  },
  {
    name: 'reads beside what it has',
    script: `cat ${place}/../secret/key ${place}/../../secret/key /proc/self/root${place}/../secret/key HOST/secret/key`,
    succeeded: (out) => out.includes('secret of the host'),
  },
  {
    name: 'reads through a link that lies there',
    script: `cat ${place}/out/key ${place}/up/key`,
    succeeded: (out) => out.includes('secret of the host'),
  },
  {
    name: 'makes a device or a program of root’s there',
    script: `mknod ${place}/disk b 8 0; cp /bin/busybox ${place}/su && chmod 6755 ${place}/su && ${place}/su id -u`,
    succeeded: (out) => /^0$/m.test(out) || wrote('disk')(),
  },
  {
    name: 'asks its channel for a mount',
    script: `for path in /v1/sandboxes/self/mounts /mounts /v1/mounts/check; do ask POST $path '{"host":"HOST/secret","path":"/secret"}'; done
      act '{"id":"m1","action":"mount.attach","host":"HOST/secret","path":"/secret"}'; cat /secret/key`,
    succeeded: (out) => /"allowed"|"mode"|"state":"done"|secret of the host/.test(out),
  },
  {
    name: 'asks for a group that has a mount',
    script: `act '{"id":"m2","action":"group.create","name":"NAME-child","tier":"untrusted","mounts":[{"host":"HOST/shared","path":"/shared","mode":"rw"}]}'`,
    succeeded: (out) => out.includes('"state":"done"'),
  },
  {
    name: 'finds the list, or a word of it',
    script: `find / -name ${list} 2>/dev/null; grep -rl old-Payrolls /proc/self/environ /proc/self/mountinfo /etc /run 2>/dev/null`,
    succeeded: (out) => out.trim() !== '',
  },
];

for (const [tier, mode] of [
  ['untrusted', 'ro'],
  ['open', 'rw'],
] as const)
  agents(
    `an agent of tier ${tier} that attacks by what it has (${mode}) gets no further than ${mode}`,
    async () => {
      const shared = join(host, 'shared');
      for (const name of ['mine', 'removed', 'moved']) {
        writeFileSync(join(shared, name), name);
        giveToAgents(join(shared, name));
      }
      symlinkSync(join(host, 'secret'), join(shared, 'out'));
      symlinkSync('../secret', join(shared, 'up'));
      const words = (text: string): string => text.replaceAll('HOST', host).replaceAll('NAME', tier);
      await scene.group(`attacks-${tier}`, tier, {
        script: attacks.map(({ script }, at) => `echo "== ${at}"; (${words(script)}) 2>&1\n`).join(''),
        mounts: [{ host: shared, path: place, mode }],
      });
      const parts = (await scene.answer(`attacks-${tier}`)).split(/^== \d+$/m).slice(1);
      assert.equal(parts.length, attacks.length, parts.join('\n'));
      for (const [at, { name, succeeded, rule }] of attacks.entries()) {
        const isLet = tier === 'open' && rule === true;
        assert.equal(succeeded(parts[at] ?? ''), isLet, `${name}: ${parts[at]}`);
      }
      const groups = await scene.call<{ items: readonly { name: string; mounts: object[] }[] }>(
        'GET',
        '/v1/groups',
      );
      assert.ok(!groups.items.some(({ name }) => name.endsWith('-child')));
      for (const name of ['out', 'up']) rmSync(join(shared, name));
    },
  );

/** Ways of an agent to a key of the project that it works in. Each is printed where the list shows what it hides elsewhere. */
const seeks: Readonly<Record<string, string>> = {
  'reads it': 'cat .env',
  'reads it by its whole path': `cat ${place}/.env`,
  'reads it through the root of a process': `cat /proc/self/root${place}/.env`,
  'reads it through where a process stands': 'cat /proc/self/cwd/.env',
  'reads it below a directory': 'cat config/keys.json',
  'reads it around a directory': 'cat config/../config/../.env',
  'reads it in a directory that is hidden whole': 'cat .ssh/id',
  'reads it by a link in its own folder': 'ln -s $PWD/.env $HOME/link; cat $HOME/link',
  'reads it by a descriptor': 'exec 3<.env; cat <&3',
  'reads it by a descriptor of its directory': 'exec 3<config; cat /proc/self/fd/3/keys.json',
  'reads it by blocks': 'dd if=.env bs=1 2>/dev/null',
  'finds it': 'find . -type f -exec cat {} +',
  'searches for it': 'grep -rh KEY= .',
  'packs it': 'tar -cf - .env config .ssh',
  'copies it': 'cp .env $HOME/copied; cat $HOME/copied',
  'copies all': 'cp -r . $HOME/all; cat $HOME/all/config/keys.json',
  'compares it with nothing': 'cmp -l .env /dev/null; diff .env /dev/null; cat .env',
  'sorts it': 'sort .env',
  'counts what it holds': 'test -s .env && echo KEY=',
  'lists what is hidden': 'test -e .ssh/id && echo KEY=',
  'gives it another name': 'mv .env moved && cat moved; mv moved .env',
  'gives its directory another name': 'mv config moved && cat moved/keys.json; mv moved config',
  'makes a second name for it': 'ln .env second && cat second; rm -f second',
};

agents(
  'the project is there without its keys, also for a group that may write it, in whatever way an agent looks for them',
  async () => {
    const project = join(host, 'hiding');
    const script = Object.values(seeks)
      .map((way, at) => `echo; echo "== ${at}"; cd ${place}; (${way}) 2>&1\n`)
      .join('');
    for (const where of [scene, loose]) {
      await where.group('project', 'open', { script, mounts: [{ host: project, path: place, mode: 'rw' }] });
      const parts = (await where.answer('project')).split(/^== \d+$/m).slice(1);
      for (const [at, name] of Object.keys(seeks).entries())
        assert.equal(parts[at]?.includes('KEY='), where === loose, `${name}: ${parts[at]}`);
    }
    await scene.group('spoils', 'open', {
      script: `cd ${place}; cat file; rm -rf .env .ssh config; echo x >.env; echo x >config/keys.json`,
      mounts: [{ host: project, path: place, mode: 'rw' }],
    });
    assert.equal(await scene.answer('spoils'), 'of the project');
    for (const [name, key] of Object.entries(keys))
      assert.equal(readFileSync(join(project, name), 'utf8'), key);
  },
);

async function lastReason(group: string): Promise<string | null | undefined> {
  const { run } = await scene.say(group, 'go');
  return (await scene.ended(group, run)).reason;
}

agents(
  'a run fails with the reason when another group has put a link at the place, and goes on when it is away',
  async () => {
    const sub = join(host, 'shared', 'sub');
    await scene.group('reader', 'untrusted', {
      script: `cat ${place}/key`,
      mounts: [{ host: sub, path: place }],
    });
    assert.equal(await scene.answer('reader'), 'shared/sub of the host\n');
    await scene.group('writer', 'open', {
      script: `mv ${place}/sub ${place}/aside && ln -s ${join(host, 'secret')} ${place}/sub && echo done`,
      mounts: [{ host: join(host, 'shared'), path: place, mode: 'rw' }],
    });
    assert.equal(await scene.answer('writer'), 'done\n');
    assert.match((await lastReason('reader')) ?? '', /link_in_path/);
    assert.ok(!(await scene.heard('reader')).includes('secret'));
    rmSync(sub);
    renameSync(join(host, 'shared', 'aside'), sub);
    assert.equal(await scene.answer('reader'), 'shared/sub of the host\n');
  },
);

agents('a run fails with the row or the reason when tier or list have become narrower since', async () => {
  await scene.call('PUT', '/v1/tiers/changing', await tierWith(scene, { mounts: 'rw' }));
  await scene.group('changed', 'changing', {
    script: `echo x >${place}/late && echo wrote`,
    mounts: [{ host: join(host, 'shared'), path: place, mode: 'rw' }],
  });
  assert.equal(await scene.answer('changed'), 'wrote\n');
  await scene.call('PUT', '/v1/tiers/changing', await tierWith(scene, { mounts: 'ro' }));
  assert.match((await lastReason('changed')) ?? '', /^changing: mounts = ro; the group wants ".*" rw$/);
  assert.equal((await scene.runs('changed'))[0]?.attempt, 1, 'another try would be refused, too');
  await scene.call('PUT', '/v1/tiers/changing', await tierWith(scene, { mounts: 'rw' }));
  await scene.daemon.kill();
  writeFileSync(join(scene.daemon.dataDir, list), '[]');
  await scene.daemon.start();
  assert.match((await lastReason('changed')) ?? '', /not_allowed/);
});
