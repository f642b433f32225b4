/**
 * Sandboxes whose root is the host's file system: what each level lets commands see and write, who they are, and what is refused.
 * The daemon is an ordinary user's, because root's runs under ids of its own.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import type { HostPaths } from '@squash/contract/host-root';
import { ApiClient } from '../support/api-client.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { ownedPrefix } from '../support/owned-directory.ts';

const isRoot = process.getuid?.() === 0;
/** Nobody's else in this machine. */
const uid = isRoot ? 24_017 : (process.getuid?.() ?? -1);
const gid = isRoot ? 24_017 : (process.getgid?.() ?? -1);

const stack = new AsyncDisposableStack();
let daemon: TestDaemon;
let home: string;

const files: Readonly<Record<string, string>> = {
  'repo/kept': 'of the host',
  'repo/.env': 'TOKEN=1',
  'repo/keys/private': 'secret',
  'repo/keys/public': 'key',
  'out/there': 'of the host',
  'config/denied': 'closed',
  'config/masked': 'password=1',
  'other/file': 'unnamed',
  '.ssh/id': 'private key',
};

function give(path: string): void {
  if (isRoot) chownSync(path, uid, gid);
}

/** As ordinary systems have them; a rule for one that is not there is dropped. */
const system: HostPaths = {
  '/usr': 'ro',
  '/bin': 'ro',
  '/sbin': 'ro',
  '/lib': 'ro',
  '/lib64': 'ro',
  '/etc': 'ro',
};

const own = (rules: HostPaths): HostPaths =>
  Object.fromEntries(Object.entries(rules).map(([name, level]) => [join(home, name), level]));

async function create(paths: HostPaths, more: object = {}, masks = {}): Promise<Answer> {
  const host = { paths, masks, user: { name: 'tester', home, shell: '/bin/sh' } };
  return await daemon.request('POST', '/v1/sandboxes', { from: { host }, ...more });
}

async function refused(answer: Promise<Answer>): Promise<string> {
  const { status, json, text } = await answer;
  assert.ok(status >= 400, text);
  return json.code;
}

before(async () => {
  // Above it everybody may search, and beside it lies nothing that a sandbox needs.
  const parent = mkdtempSync(join(tmpdir(), ownedPrefix('host-root')));
  stack.defer(() => rmSync(parent, { recursive: true }));
  chmodSync(parent, 0o755);
  home = join(parent, 'home');
  mkdirSync(home, { mode: 0o700 });
  give(home);
  for (const [name, text] of Object.entries(files)) {
    const path = join(home, name);
    mkdirSync(dirname(path), { recursive: true });
    give(dirname(path));
    writeFileSync(path, text);
    give(path);
  }
  symlinkSync('kept', join(home, 'repo/link'));
  daemon = stack.use(
    await TestDaemon.start({
      env: { HOME: home, SQUASH_HOST_ROOT: '1' },
      ...(isRoot ? { uid } : {}),
    }),
  );
});

after(() => stack.disposeAsync());

test('a path that is always closed, another user’s home and a way over links are refused by name', async () => {
  const rows: readonly (readonly [HostPaths, RegExp])[] = [
    [own({ '.ssh': 'ro' }), /always_closed/],
    [own({ '.ssh/id': 'cow' }), /always_closed/],
    [{ '/etc/shadow': 'ro' }, /always_closed/],
    [{ [daemon.dataDir]: 'ro' }, /always_closed/],
    [{ [join(dirname(home), 'neighbour')]: 'ro' }, /other_home/],
    [{ '/proc': 'ro' }, /system_path/],
    [own({ 'repo/link/x': 'ro' }), /link_in_path/],
  ];
  for (const [paths, why] of rows) {
    const { status, json, text } = await create(paths);
    assert.equal(status, 403, text);
    assert.equal(json.code, 'host_path_refused');
    assert.match(json.detail, why);
  }
  assert.deepEqual((await daemon.request('GET', '/v1/sandboxes')).json.items, []);
});

test('rules that can’t be read, and an image beside them, are refused with a sentence', async () => {
  const relative = await create({ usr: 'ro' });
  assert.equal(relative.json.code, 'invalid_request', relative.text);
  assert.match(relative.json.detail, /from\.host.*absolute/);
  assert.equal(await refused(create(system, { image: 'debian:12' })), 'invalid_request');
  assert.equal(await refused(create(system, { on_timeout: 'snapshot' })), 'host_root_unsupported');
  assert.equal(await refused(create({ ...system, ...own({ 'config/masked': 'mask' }) })), 'invalid_request');
  const both = { user: { name: 'tester', home, shell: '/bin/sh' }, trace_paths: true, nesting: true };
  assert.equal(
    await refused(create(system, { from: { host: { paths: system, ...both } } })),
    'invalid_request',
  );
  // Mounts of the box's own could carry the bit to the host, from files that a program of the box makes up.
  const host = {
    user: both.user,
    nesting: true,
    devices: ['/dev/fuse'],
    paths: { ...system, ...own({ repo: 'rw' }) },
  };
  assert.match(
    (await create(system, { from: { host } })).json.detail,
    /would let a box make set-uid files there/,
  );
});

test('a key of a narrower scope may not have the host’s files', async () => {
  const { json } = await daemon.request('POST', '/v1/keys', { name: 'k', owner: 'alice', scope: 'manage' });
  const host = { paths: system, user: { name: 'tester', home } };
  const { status, json: answer } = await new ApiClient(daemon).send('POST', '/v1/sandboxes', {
    body: { from: { host } },
    headers: { authorization: `Bearer ${json.token}`, 'content-type': 'application/json' },
  });
  assert.deepEqual([status, answer.code], [403, 'forbidden']);
});

test('a daemon that does not offer the host’s file system says so', async () => {
  await using closed = await TestDaemon.start();
  const host = { paths: system, user: { name: 'tester', home } };
  const { status, json } = await closed.request('POST', '/v1/sandboxes', { from: { host } });
  assert.deepEqual([status, json.code], [409, 'host_root_unavailable']);
  assert.match(json.detail, /SQUASH_HOST_ROOT/);
});

test('each level shows what it says and keeps the rest', async () => {
  const made = await create(
    {
      ...system,
      ...own({
        repo: 'cow',
        'repo/.env': 'hidden',
        'repo/keys': 'hidden',
        'repo/keys/public': 'ro',
        out: 'rw',
        config: 'ro',
        'config/denied': 'deny',
        'config/masked': 'mask',
        missing: 'ro',
      }),
    },
    {},
    { [join(home, 'config/masked')]: 'password=none' },
  );
  assert.equal(made.status, 201, `${made.text} ${daemon.output.slice(-3_000)}`);
  const { id, layers, host_paths: levels, warnings } = made.json;
  assert.deepEqual([layers, levels[join(home, 'repo')], levels['/usr']], [[], 'cow', 'ro']);
  assert.match(JSON.stringify(warnings), /missing/);
  assert.deepEqual(
    [made.json.cpu, made.json.memory_mb],
    [availableParallelism(), Math.floor(totalmem() / 1_048_576)],
    'what runs on the host’s files may use what the host has',
  );
  const sh = async (cmd: string): Promise<string> => {
    const { json } = await daemon.request('POST', `/v1/sandboxes/${id}/exec`, { shell: cmd });
    return `${json.stdout}${json.stderr}`.trim();
  };

  assert.equal(await sh('id -u; id -g; echo $HOME $USER; pwd'), `${uid}\n${gid}\n${home} tester\n${home}`);
  assert.equal(await sh('test -s $SSL_CERT_FILE && test -s $NODE_EXTRA_CA_CERTS && echo there'), 'there');
  // A machine's npmrc may name another file.
  assert.equal(await sh('test $npm_config_cafile = $SSL_CERT_FILE && echo same'), 'same');
  // The authorities of this machine, those that its operator has added among them.
  const added = '/etc/ssl/certs/ca-certificates.crt';
  assert.equal(await sh(`cat ${added} | grep -vxFf $SSL_CERT_FILE || echo all`), 'all');
  assert.equal(await sh('ls -A'), 'config\nout\nrepo');
  assert.equal(await sh('cat repo/kept repo/link'), 'of the hostof the host');
  assert.equal(await sh('ls -A repo'), 'kept\nkeys\nlink');
  assert.equal(await sh('ls -A repo/keys; cat repo/keys/public'), 'public\nkey');
  assert.match(
    await sh('cat repo/.env repo/keys/private .ssh/id other/file 2>&1'),
    /^(.*No such file.*\n?){4}$/,
  );
  assert.match(await sh('cat config/denied 2>&1'), /Permission denied/);
  assert.equal(await sh('cat config/masked'), 'password=none');
  assert.match(await sh('echo x 2>&1 >config/new; echo x 2>&1 >/usr/x; echo x 2>&1 >/etc/x'), /^(.*\n?){3}$/);

  assert.equal(await sh('echo changed >repo/kept; echo new >repo/new; cat repo/kept'), 'changed');
  assert.equal(readFileSync(join(home, 'repo/kept'), 'utf8'), 'of the host');
  assert.ok(!existsSync(join(home, 'repo/new')));
  assert.equal(await sh('echo written >out/there; echo new >out/new'), '');
  assert.equal(readFileSync(join(home, 'out/there'), 'utf8'), 'written\n');
  assert.equal(lstatSync(join(home, 'out/new')).uid, uid);
  assert.equal(await sh('echo mine >/tmp/file; cat /tmp/file; ls -A /root 2>&1 | wc -l'), 'mine\n1');

  const file = `/v1/sandboxes/${id}/files?path=${encodeURIComponent(join(home, 'out/sent'))}`;
  assert.equal(
    (
      await new ApiClient(daemon).send('PUT', file, {
        text: 'sent',
        headers: { 'content-type': 'application/octet-stream' },
      })
    ).status,
    200,
  );
  assert.equal(lstatSync(join(home, 'out/sent')).uid, uid);

  for (const [path, body] of [
    [`/v1/sandboxes/${id}/snapshots`, { label: 'a' }],
    ['/v1/sandboxes', { from: { sandbox: id } }],
    ['/v1/images/commit', { sandbox: id, name: 'tools:1' }],
    [`/cgi-bin/api/sandboxes/${id}/activate`, { module: '000-base-test' }],
  ] as const)
    assert.equal(await refused(daemon.request('POST', path, body)), 'host_root_unsupported', path);

  await daemon.kill();
  await daemon.start();
  assert.equal(await sh('cat repo/kept'), 'changed');
  assert.equal((await daemon.request('POST', `/v1/sandboxes/${id}/pause`, { keep: 'files' })).status, 200);
  assert.equal((await daemon.request('POST', `/v1/sandboxes/${id}/resume`)).status, 200);
  assert.equal(await sh('cat repo/kept config/masked'), 'changed\npassword=none');
  assert.equal((await daemon.request('DELETE', `/v1/sandboxes/${id}`)).status, 204);
});
