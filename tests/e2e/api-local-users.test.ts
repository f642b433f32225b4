/**
 * A daemon without a token among several users of one machine: its own user's lines work, another's are told to bring a
 * token, on both loopback addresses and whatever the client does meanwhile.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { KeyCreated } from '@squash/contract/keys';
import { repository } from '../support/base-layer.ts';
import { TestDaemon } from '../support/daemon.ts';

const run = promisify(execFile);
const path = '/cgi-bin/api/sandboxes';
const isRoot = process.getuid?.() === 0;
/** Two that nobody is. */
const stranger = 64_001;
const owner = 64_002;

/** Words that make the rest run as another user: as root by its id, else as the first of our subordinate ids. */
function asStranger(): readonly string[] | undefined {
  const words = isRoot
    ? ['setpriv', `--reuid=${stranger}`, `--regid=${stranger}`, '--clear-groups', '--']
    : ['unshare', '--user', '--map-users=auto', '--map-groups=auto', '--setuid=1', '--setgid=1', '--'];
  const [program = '', ...rest] = words;
  return spawnSync(program, [...rest, 'true']).status === 0 ? words : undefined;
}

/** @returns what it printed */
async function as(user: readonly string[], ...words: readonly string[]): Promise<string> {
  const [program = '', ...rest] = [...user, ...words];
  return (await run(program, rest)).stdout;
}

/** @returns status and body, as `curl` of that user gets them */
async function curl(
  user: readonly string[],
  ...words: readonly string[]
): Promise<readonly [number, string]> {
  const stdout = await as(user, 'curl', '-s', '-w', '\n%{http_code}', ...words);
  const cut = stdout.lastIndexOf('\n');
  return [Number(stdout.slice(cut + 1)), stdout.slice(0, cut)];
}

/** A request whose client is gone before the daemon, which stands still meanwhile, takes the connection. */
async function blindly(user: readonly string[], daemon: TestDaemon, body: string): Promise<void> {
  const request = `POST ${path} HTTP/1.1\\r\\nhost: localhost\\r\\ncontent-length: ${body.length}\\r\\n\\r\\n${body}`;
  const script = `exec 3<>/dev/tcp/127.0.0.1/${daemon.port}; printf '${request}' >&3; exec 3>&-`;
  assert.ok(daemon.pid !== undefined);
  process.kill(daemon.pid, 'SIGSTOP');
  try {
    await as(user, 'bash', '-c', script);
  } finally {
    process.kill(daemon.pid, 'SIGCONT');
  }
}

const others = asStranger();
const needsOthers = others === undefined ? 'needs root, or subordinate ids and unshare' : false;

test('without a token another user is told to bring one, and has no effect', {
  skip: needsOthers,
}, async () => {
  assert.ok(others !== undefined);
  for (const host of ['127.0.0.1', '::1']) {
    await using daemon = await TestDaemon.start({ env: { SQUASH_HOST: host } });
    const address = daemon.url;
    assert.equal((await curl([], address + path))[0], 200);
    const [status, text] = await curl(others, address + path);
    assert.equal(status, 401);
    assert.match(text, /SQUASH_AUTH_TOKEN.*"code":"token_required"/);
    assert.equal((await curl(others, `${address}/v1/info`))[0], 401);
    assert.equal((await curl(others, `${address}/cgi-bin/health`))[0], 200);
    assert.equal((await curl(others, '-H', 'Authorization: Bearer x', address + path))[0], 401);
    // A key says who he is, and what he may do.
    const key = (await daemon.call('POST', '/v1/keys', {
      name: 'x',
      owner: 'guest',
      scope: 'read',
    })) as KeyCreated;
    const bearer = (token: string): readonly string[] => ['-H', `Authorization: Bearer ${token}`];
    assert.deepEqual(await curl(others, ...bearer(key.token), address + path), [200, '[]']);
    assert.equal((await curl(others, ...bearer(key.token), `${address}/v1/keys`))[0], 403);
    assert.equal((await curl(others, ...bearer(`${key.token}0`), address + path))[0], 401);
    await daemon.call('DELETE', `/v1/keys/${key.id}`);
    assert.equal((await curl(others, ...bearer(key.token), address + path))[0], 401);
    assert.equal((await curl([], ...bearer(key.token), address + path))[0], 401);
    assert.equal((await curl(others, address + path))[0], 401);
    // Two requests over one connection: the second is judged as the first was.
    const twice = await as(others, 'curl', '-s', `${address}/cgi-bin/health`, '--next', '-s', address + path);
    assert.match(twice, /"status":"ok".*token_required/s);
  }
});

test('a client that is gone when it is asked for is nobody', { skip: needsOthers }, async () => {
  assert.ok(others !== undefined);
  await using daemon = await TestDaemon.start();
  await blindly(others, daemon, '{"id":"foreign"}');
  await blindly([], daemon, '{"id":"gone"}');
  await curl([], `${daemon.url}${path}`, '-d', '{"id":"own"}');
  const list = (await daemon.call('GET', path)) as { id: string }[];
  assert.deepEqual(
    list.map(({ id }) => id),
    ['own'],
  );
});

const isOpen =
  isRoot &&
  spawnSync('cat', [join(repository, 'package.json'), process.execPath], { uid: owner, stdio: 'ignore' })
    .status === 0;
const needsOpen = !isRoot ? 'needs root' : isOpen ? false : 'this clone is closed to other users';

test('a daemon of an ordinary user serves that user and root without a token', {
  skip: needsOpen,
}, async () => {
  assert.ok(others !== undefined);
  await using daemon = await TestDaemon.start({ uid: owner });
  const asOwner = ['setpriv', `--reuid=${owner}`, `--regid=${owner}`, '--clear-groups', '--'];
  assert.equal((await curl(asOwner, daemon.url + path))[0], 200);
  assert.equal((await curl([], daemon.url + path))[0], 200);
  assert.equal((await curl(others, daemon.url + path))[0], 401);
});

test('where nobody can be told from others, nobody is served over TCP, and it is said', {
  skip: needsOpen,
}, async () => {
  const nobody = 65_534;
  await using daemon = await TestDaemon.start({ uid: nobody });
  const [status, text] = await curl([], daemon.url + path);
  assert.equal(status, 401);
  assert.match(text, /can not be found out.*token_required/);
  assert.match(daemon.output, /listen.owner_unknown/);
  const socket = join(daemon.dataDir, 'run/api.sock');
  const [, info] = await curl([], '--unix-socket', socket, 'http://localhost/v1/info');
  const { host } = JSON.parse(info) as { host: { name: string; state: string; weaker: string | null }[] };
  const row = host.find(({ name }) => name === 'connection_owner');
  assert.deepEqual([row?.state, typeof row?.weaker], ['missing', 'string']);
});
