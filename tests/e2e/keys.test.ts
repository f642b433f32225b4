/**
 * Keys against a real daemon: what is kept of them, when they end, whose sandboxes they see, what their owners may have, and
 * what somebody without one tries.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { text as readText } from 'node:stream/consumers';
import { hash, randomBytes } from 'node:crypto';
import type { AuditList } from '@squash/contract/audit';
import type { KeyBody, KeyCreated, KeyList, OwnerList } from '@squash/contract/keys';
import { WebSocket } from 'ws';
import { isOnVms } from '../support/backend.ts';
import { ApiClient, type ApiAnswer } from '../support/api-client.ts';
import { baseLayer } from '../support/base-layer.ts';
import { squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

/** A microVM has no less. */
const smallMb = isOnVms ? 128 : 64;
const operatorToken = 'the-operator-of-this-test';
const sandboxes = '/cgi-bin/api/sandboxes';
/** Two looks, and what a busy machine takes. */
const endMsMax = 6_000;

let daemon: TestDaemon;
let api: ApiClient;

before(async () => {
  daemon = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: operatorToken } });
  api = new ApiClient(daemon);
});

after(async () => {
  await daemon[Symbol.asyncDispose]();
});

async function makeKey(body: Partial<KeyBody> & Pick<KeyBody, 'owner' | 'scope'>): Promise<KeyCreated> {
  return (await daemon.call('POST', '/v1/keys', { name: 'test', ...body })) as KeyCreated;
}

function as(token: string, ...[method, path, body]: readonly [string, string, unknown?]): Promise<ApiAnswer> {
  const headers = { authorization: `Bearer ${token}` };
  return api.send(method, path, body === undefined ? { headers } : { headers, body });
}

test('a token is answered once and kept nowhere; keys outlive the daemon, and not their removal', async () => {
  const made = await makeKey({ owner: 'kept', scope: 'manage', name: 'nämé "x"' });
  assert.match(made.token, /^sqk_[0-9a-f]{40}$/);
  assert.match(made.id, /^key_[0-9a-f]{16}$/);
  assert.equal((await as(made.token, 'GET', '/v1/keys/self')).json.key, made.id);
  const { token: _token, ...shown } = made;
  const { last_used_at: used, ...found } = (await daemon.call('GET', `/v1/keys/${made.id}`)) as KeyCreated;
  assert.deepEqual({ ...found, last_used_at: null }, shown);
  assert.ok(used !== null);
  await daemon.call('PUT', '/v1/owners/kept/quota', { sandboxes: 3 });
  await daemon.stop();
  for (const name of await readdir(daemon.dataDir, { recursive: true, withFileTypes: true })) {
    if (!name.isFile() || !/^squash\.db|audit|\.log$|\.json$/.test(name.name)) continue;
    const bytes = await readFile(join(name.parentPath, name.name), 'latin1');
    assert.ok(!bytes.includes(made.token), name.name);
    if (name.name === 'squash.db') assert.ok(bytes.includes(hash('sha256', made.token, 'hex')));
  }
  assert.ok(!daemon.output.includes(made.token));
  await daemon.start();
  const after = (await as(made.token, 'GET', '/v1/keys/self')).json;
  assert.deepEqual([after.key, after.quota.sandboxes], [made.id, 3]);
  assert.ok(((await daemon.call('GET', `/v1/keys/${made.id}`)) as KeyCreated).last_used_at);
  await daemon.call('DELETE', `/v1/keys/${made.id}`);
  assert.equal((await as(made.token, 'GET', '/v1/keys/self')).status, 401);
  await daemon.kill();
  await daemon.start();
  assert.equal((await as(made.token, 'GET', '/v1/keys/self')).status, 401);
  assert.equal((await daemon.request('GET', `/v1/keys/${made.id}`)).status, 404);
});

test('what a key has open ends soon after its removal or its end; what it started goes on', async () => {
  const key = await makeKey({ owner: 'streams', scope: 'manage' });
  await as(key.token, 'POST', sandboxes, { id: 'streams', memory_mb: 64 });
  const soon = new Date(Date.now() + 4_000).toISOString();
  const brief = await makeKey({ owner: 'streams', scope: 'exec', expires_at: soon });
  await as(key.token, 'POST', `${sandboxes}/streams/exec-bg`, {
    cmd: 'while :; do echo tick; sleep 0.1; done',
  });
  const headers = { authorization: `Bearer ${key.token}` };
  const events = await fetch(`${daemon.url}/v1/sandboxes/streams/egress?follow=true`, { headers });
  const job = await fetch(`${daemon.url}${sandboxes}/streams/jobs/1/logs`, { headers });
  const slow = fetch(`${daemon.url}${sandboxes}/streams/exec`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: '{"cmd":"sleep 30"}',
  }).then((answer) => answer.text());
  const socket = await openShell(key.token);
  const other = await openShell(brief.token);
  const ends = [events.text(), job.text(), slow].map((end) =>
    end.then(
      () => 'whole',
      () => 'cut',
    ),
  );
  const closed = once(socket, 'close');
  const sinceMs = performance.now();
  await daemon.call('DELETE', `/v1/keys/${key.id}`);
  assert.deepEqual(await Promise.all(ends), ['cut', 'cut', 'cut']);
  await closed;
  assert.ok(performance.now() - sinceMs < endMsMax);
  if (other.readyState !== WebSocket.CLOSED) await once(other, 'close');
  assert.ok(Date.now() > Date.parse(soon) - 1_000 && Date.now() < Date.parse(soon) + endMsMax);
  const jobs = (await daemon.call('GET', `${sandboxes}/streams/jobs`)) as { readonly status: string }[];
  assert.deepEqual(
    jobs.map(({ status }) => status),
    ['running'],
  );
  await daemon.call('DELETE', `${sandboxes}/streams`);
});

async function openShell(token: string): Promise<WebSocket> {
  const url = `ws://127.0.0.1:${daemon.port}/v1/sandboxes/streams/exec`;
  const socket = new WebSocket(url, 'squash.exec.v1', { headers: { authorization: `Bearer ${token}` } });
  const upgraded = once(socket, 'upgrade') as Promise<[{ headers: Record<string, string> }]>;
  await once(socket, 'open');
  assert.ok((await upgraded)[0].headers['squash-request-id']);
  socket.send('{"type":"start","argv":["sleep","60"]}');
  await once(socket, 'message');
  return socket;
}

test('a key that removes itself gets its answer', async () => {
  const { id, token } = await makeKey({ owner: 'self', scope: 'admin' });
  assert.equal((await as(token, 'DELETE', `/v1/keys/${id}`)).status, 204);
  assert.equal((await as(token, 'GET', '/v1/keys/self')).status, 401);
});

test('a sandbox is of the key’s owner; another owner neither sees nor names it, an administrator sees all', async () => {
  const one = await makeKey({ owner: 'one', scope: 'manage' });
  const two = await makeKey({ owner: 'two', scope: 'manage' });
  const admin = await makeKey({ owner: 'ops', scope: 'admin' });
  const make = (token: string, id: string, owner?: string) =>
    as(token, 'POST', sandboxes, { id, owner, memory_mb: 64 });
  assert.equal((await make(one.token, 'of-one')).json.owner, 'one');
  assert.equal((await make(two.token, 'of-two', 'two')).json.owner, 'two');
  assert.equal((await make(admin.token, 'of-ops')).json.owner, 'ops');
  assert.equal((await make(admin.token, 'for-one', 'one')).json.owner, 'one');
  for (const owner of ['one', 'anon', '', 'TWO', 'two ']) {
    const refused = await make(two.token, 'stolen', owner);
    assert.deepEqual([refused.status, refused.json.code], [403, 'forbidden'], owner);
  }
  const ids = async (token: string) =>
    ((await as(token, 'GET', sandboxes)).json as { readonly id: string }[]).map(({ id }) => id);
  assert.deepEqual(await ids(one.token), ['for-one', 'of-one']);
  assert.deepEqual(await ids(two.token), ['of-two']);
  assert.deepEqual(await ids(admin.token), ['for-one', 'of-one', 'of-ops', 'of-two']);
  assert.equal((await as(admin.token, 'POST', `${sandboxes}/of-one/exec`, { cmd: 'true' })).status, 200);
  assert.equal((await as(two.token, 'DELETE', `${sandboxes}/of-one`)).status, 404);
  // Nothing about others stands in what all may read.
  const info = (await as(one.token, 'GET', '/v1/info')).json;
  assert.deepEqual(info.config, []);
  const owners = (await daemon.call('GET', '/v1/owners')) as OwnerList;
  assert.deepEqual(
    owners.items
      .filter(({ owner }) => ['one', 'two', 'ops'].includes(owner))
      .map(({ owner, keys, use }) => [owner, keys, use.sandboxes]),
    [
      ['one', 1, 2],
      ['ops', 1, 1],
      ['two', 1, 1],
    ],
  );
  const { items } = (await daemon.call('GET', '/v1/audit?owner=two&decision=refused&limit=2')) as AuditList;
  assert.deepEqual(
    items.map(({ operation, sandbox, code, caller }) => [
      operation,
      sandbox,
      code,
      caller.kind === 'key' ? caller.key : '',
    ]),
    [
      ['seed.destroy', 'of-one', 'sandbox_not_found', two.id],
      ['seed.create', 'stolen', 'forbidden', two.id],
    ],
  );
  for (const id of ['of-one', 'of-two', 'of-ops', 'for-one'])
    await daemon.call('DELETE', `${sandboxes}/${id}`);
});

test('an id that goes to another owner takes no stream and no upload of the first with it', async () => {
  const first = await makeKey({ owner: 'first', scope: 'manage' });
  const second = await makeKey({ owner: 'second', scope: 'manage' });
  const make = (token: string) => as(token, 'POST', sandboxes, { id: 'heir', memory_mb: 64 });
  await make(first.token);
  const headers = { authorization: `Bearer ${first.token}` };
  const events = await fetch(`${daemon.url}/v1/sandboxes/heir/egress?follow=true`, { headers });
  const heard = events.text();
  const image = await readFile(await baseLayer());
  const upload = request({
    host: '127.0.0.1',
    port: daemon.port,
    method: 'PUT',
    path: '/v1/sandboxes/heir/snapshots/planted/file',
    headers: { ...headers, 'content-length': image.length },
  });
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
  upload.write(image.subarray(0, 1_000));
  await waitFor('the upload to begin', async () =>
    (await readdir(join(daemon.dataDir, 'tmp'))).some((name) => !name.startsWith('squash-')),
  );
  const url = `ws://127.0.0.1:${daemon.port}/v1/sandboxes/heir/exec`;
  const socket = new WebSocket(url, 'squash.exec.v1', { headers });
  await once(socket, 'open');
  await as(first.token, 'DELETE', `${sandboxes}/heir`);
  assert.equal((await make(second.token)).status, 201);
  socket.send('{"type":"start","argv":["true"]}');
  const [told] = (await once(socket, 'message')) as [Buffer];
  assert.equal(JSON.parse(told.toString()).code, 'sandbox_not_found');
  socket.terminate();
  upload.end(image.subarray(1_000));
  const [refused] = await answered;
  refused.resume();
  assert.equal(refused.statusCode, 404);
  assert.deepEqual((await as(second.token, 'GET', '/v1/sandboxes/heir/snapshots')).json.items, []);
  await as(second.token, 'POST', `${sandboxes}/heir/exec`, {
    cmd: 'nslookup leak.example.invalid 198.18.0.1',
  });
  assert.doesNotMatch(await heard, /leak/);
  assert.match((await as(second.token, 'GET', '/v1/sandboxes/heir/egress')).text, /leak/);
  await daemon.call('DELETE', `${sandboxes}/heir`);
});

test('a quota holds against requests at once, and what ends makes room', async () => {
  const { token } = await makeKey({ owner: 'bound', scope: 'manage' });
  const quota = (body: object) => daemon.call('PUT', '/v1/owners/bound/quota', body);
  const statuses = (answers: readonly ApiAnswer[]) =>
    answers.map(({ status }) => status).sort((one, other) => one - other);
  await quota({ memory_mb: 2 * smallMb + 22 });
  const make = (id: string) => as(token, 'POST', sandboxes, { id, memory_mb: smallMb });
  assert.deepEqual(statuses(await Promise.all(['b1', 'b2', 'b3', 'b4'].map(make))), [201, 201, 429, 429]);
  const [box, spare] = ((await as(token, 'GET', sandboxes)).json as { readonly id: string }[]).map(
    ({ id }) => id,
  );
  await quota({ execs: 2 });
  const run = (id: string | undefined) => as(token, 'POST', `${sandboxes}/${id}/exec`, { cmd: 'sleep 1' });
  assert.deepEqual(
    statuses(await Promise.all([run(box), run(spare), run(box), run(spare)])),
    [200, 200, 429, 429],
  );
  assert.equal((await run(box)).status, 200);
  await quota({ disk_mb: 1 });
  const refused = await as(token, 'POST', `${sandboxes}/${box}/snapshot`, {});
  assert.match(refused.text, /MiB of disk, and its quota is 1.*quota_exceeded/);
  assert.equal(refused.headers['retry-after'], '1');
  await quota({ sandboxes: 2 });
  await daemon.call('DELETE', `${sandboxes}/${spare}`);
  assert.equal((await make('b5')).status, 201);
  const self = (await as(token, 'GET', '/v1/keys/self')).json;
  assert.deepEqual(
    [self.use.sandboxes, self.use.memory_mb, self.quota.sandboxes, self.quota.cpu],
    [2, 2 * smallMb, 2, null],
  );
  for (const id of [box, 'b5']) await daemon.call('DELETE', `${sandboxes}/${id}`);
});

test('sandboxes that grow at once stay within a quota, and one above it may shrink', {
  skip: isOnVms ? 'a microVM that runs gets more than it started with behind a stop' : false,
}, async () => {
  const { token } = await makeKey({ owner: 'grown', scope: 'manage' });
  const ids = ['g1', 'g2', 'g3', 'g4'];
  for (const id of ids) await as(token, 'POST', sandboxes, { id, memory_mb: 64 });
  await daemon.call('PUT', '/v1/owners/grown/quota', { memory_mb: 600 });
  const grow = async (id: string, size: number) =>
    (await as(token, 'PATCH', `/v1/sandboxes/${id}`, { memory_mb: size })).status;
  const statuses = await Promise.all(ids.map((id) => grow(id, 256)));
  assert.deepEqual(
    statuses.sort((one, other) => one - other),
    [200, 429, 429, 429],
  );
  await daemon.call('PUT', '/v1/owners/grown/quota', { memory_mb: 10 });
  const largest = ids[0] ?? '';
  assert.deepEqual([await grow(largest, 48), await grow(largest, 49)], [200, 429]);
  for (const id of ids) await daemon.call('DELETE', `${sandboxes}/${id}`);
});

/** Bytes as they are: what no client library would send. */
async function raw(head: string): Promise<number> {
  const socket = createConnection(daemon.port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.end(`${head}\r\nconnection: close\r\n\r\n`, 'latin1');
  return Number(/^HTTP\/1\.1 (\d+)/.exec(await readText(socket))?.[1] ?? 0);
}

test('nobody gets in by guessing, by tricks with headers or addresses, or with what the API shows of a key', async () => {
  const { token, id } = await makeKey({ owner: 'target', scope: 'admin' });
  const target = 'GET /v1/keys HTTP/1.1\r\nhost: localhost';
  assert.equal(await raw(`${target}\r\nauthorization: Bearer ${token}`), 200);
  const guesses = [
    ...Array.from({ length: 200 }, () => `sqk_${randomBytes(20).toString('hex')}`),
    id,
    hash('sha256', token, 'hex'),
    token.slice(0, -1),
    `${token}0`,
    token.toUpperCase(),
    token.slice(4),
    `${token},${token}`,
    '__proto__',
    'constructor',
  ];
  for (const guess of guesses)
    assert.equal(await raw(`${target}\r\nauthorization: Bearer ${guess}`), 401, guess);
  const tricks = [
    `authorization: ${token}`,
    `authorization: Basic ${Buffer.from(`x:${token}`).toString('base64')}`,
    `authorization: Token ${token}`,
    `authorization: Bearer\r\nauthorization: Bearer ${token}`,
    `authorization: Bearer ${token}\r\nauthorization: Bearer ${token}`,
    `authorization: Bearer x ${token}`,
    `x-api-key: ${token}`,
    `cookie: token=${token}; authorization=Bearer ${token}`,
    `proxy-authorization: Bearer ${token}`,
    `x-forwarded-for: 127.0.0.1\r\nx-forwarded-user: operator`,
    `sec-websocket-protocol: ${token}`,
  ];
  for (const trick of tricks) assert.equal(await raw(`${target}\r\n${trick}`), 401, trick);
  const good = `authorization: Bearer ${token}`;
  for (const path of [
    `/v1/keys?token=${token}`,
    `/v1/keys?access_token=${token}`,
    `/v1/keys?authorization=Bearer%20${token}`,
    `/v1/keys/${token}`,
    `/${token}/v1/keys`,
    `/v1/keys?owner=${token.toUpperCase()}`,
  ]) {
    assert.equal(await raw(`GET ${path} HTTP/1.1\r\nhost: localhost`), 401, path);
    // Nor with a good key beside it: it stands in somebody's log by now.
    assert.equal(await raw(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n${good}`), 401, path);
  }
  for (const path of ['/v1/keys/self/..', '/v1/keys/%2e%2e/audit', '//v1/keys', '/v1/../v1/keys', '/V1/keys'])
    assert.ok([400, 401].includes(await raw(`GET ${path} HTTP/1.1\r\nhost: localhost`)), path);
  for (const method of ['HEAD', 'OPTIONS', 'TRACE', 'PROPFIND'])
    assert.equal(await raw(`${method} /v1/keys HTTP/1.1\r\nhost: localhost`), 401, method);
  const read = await makeKey({ owner: 'target', scope: 'read' });
  for (const body of [{ scope: 'admin' }, { name: 'x', owner: 'target', scope: 'admin' }])
    assert.equal((await as(read.token, 'POST', '/v1/keys', body)).status, 403);
});

test('a key that can’t be is refused, and says why', async () => {
  const body = { name: 'x', owner: 'o', scope: 'read' };
  const table: readonly [object, RegExp][] = [
    [{ ...body, scope: 'root' }, /scope must be "read" or "exec" or "manage" or "admin"/],
    [{ ...body, owner: '../x' }, /owner must be/],
    [{ ...body, owner: '' }, /owner must be/],
    [{ ...body, name: 'a\u001b[31m' }, /name must have/],
    [{ ...body, name: 'x'.repeat(129) }, /name must have/],
    [{ ...body, expires_at: '2020-01-01T00:00:00Z' }, /has passed/],
    [{ ...body, expires_at: 'tomorrow' }, /expires_at must be a time/],
    [{ ...body, token: `x` }, /"token" is unknown/],
    [{ name: 'x' }, /owner is missing|owner must be/],
  ];
  for (const [wrong, sentence] of table) {
    const { status, json } = await as(operatorToken, 'POST', '/v1/keys', wrong);
    assert.equal(status, 400, JSON.stringify(wrong));
    assert.match(json.detail, sentence);
  }
  const page = async (query: string) => (await daemon.call('GET', `/v1/keys?${query}`)) as KeyList;
  for (let n = 0; n < 5; n += 1) await makeKey({ owner: 'pages', scope: 'read' });
  const first = await page('owner=pages&limit=3');
  assert.ok(first.next !== null);
  const rest = await page(`owner=pages&limit=3&cursor=${first.next}`);
  assert.deepEqual([first.items.length, rest.items.length, rest.next], [3, 2, null]);
});

test('the command line makes, uses and removes keys', async () => {
  const env = { SQUASH_API: daemon.url, SQUASH_AUTH_TOKEN: operatorToken };
  const ok = (words: readonly string[]) => squashOk(daemon, words, { env });
  const made = await squash(
    daemon,
    ['keys', 'create', 'ci', '--owner', 'cli', '--scope', 'manage', '--expires', '30d'],
    { env },
  );
  const token = made.stdout.toString().trim();
  assert.match(token, /^sqk_[0-9a-f]{40}$/);
  const [id = ''] = /key_\w+/.exec(made.stderr) ?? [];
  assert.match(
    await ok(['keys', 'ls', '--owner', 'cli']),
    new RegExp(`^ID .*\n${id}  cli {4}manage +in \\d+[hd] +never +ci$`),
  );
  assert.match(
    await ok(['quota', 'set', 'cli', '--sandboxes', '1', '--cpu', '2.5']),
    /sandboxes +0 +1\n.*\nprocessors +0 +2\.5\n/,
  );
  assert.equal((await squash(daemon, ['quota', 'set', 'cli'], { env })).code, 2);
  assert.equal(await ok(['whoami']), 'the operator');
  const asKey = { env: { SQUASH_API: daemon.url, SQUASH_AUTH_TOKEN: token } };
  assert.match(
    await squashOk(daemon, ['whoami'], asKey),
    new RegExp(`^key ci \\(${id}\\) of cli, scope manage, until 20.*\nWHAT`),
  );
  await squashOk(daemon, ['create', 'cli-box', '--memory', `${smallMb}`], asKey);
  const full = await squash(daemon, ['create', 'cli-more'], asKey);
  assert.match(full.stderr, /its quota is 1.*\(quota_exceeded\)/);
  assert.match((await squash(daemon, ['keys', 'ls'], asKey)).stderr, /\(forbidden\)/);
  // Over the Unix socket a key is that key, too.
  assert.match(await squashOk(daemon, ['whoami', '--json', '--token', token]), new RegExp(`"key": "${id}"`));
  assert.equal(await squashOk(daemon, ['whoami', '--token', operatorToken]), 'the operator');
  assert.match(await ok(['owners', 'ls']), new RegExp(`\\ncli +1 +1/1 +${smallMb} +2/2\\.5 +\\d+ +0\\n`));
  assert.match(
    await ok(['audit', '--owner', 'cli', '--refused']),
    /cli\/ci +127\.0\.0\.1 +key\.list +403 +refused: forbidden\n.*seed\.create +cli-more +429 +refused: quota_exceeded/,
  );
  assert.match(await ok(['__complete', '--', 'keys', 'rm', 'key_']), new RegExp(`^${id}\tci, cli$`, 'm'));
  assert.match(await ok(['__complete', '--', 'quota', 'show', 'c']), /^cli$/m);
  await ok(['rm', 'cli-box', '--yes']);
  assert.equal(await ok(['keys', 'rm', id]), id);
  assert.equal((await squash(daemon, ['whoami'], asKey)).code, 1);
  for (const wrong of [
    ['keys', 'create', 'x'],
    ['keys', 'create', 'x', '--owner', 'o', '--scope', 'read', '--expires', 'soon'],
  ])
    assert.equal((await squash(daemon, wrong, { env })).code, 2);
});

test('a repair of the database keeps keys and quotas', async () => {
  await using broken = await TestDaemon.start();
  const { token } = (await broken.call('POST', '/v1/keys', {
    name: 'x',
    owner: 'o',
    scope: 'read',
  })) as KeyCreated;
  await broken.call('PUT', '/v1/owners/o/quota', { sandboxes: 7 });
  await broken.stop();
  const path = join(broken.dataDir, 'squash.db');
  const { DatabaseSync } = await import('node:sqlite');
  const database = new DatabaseSync(path);
  database.exec('DROP TABLE counters');
  database.close();
  assert.ok((await broken.repair())['kept']);
  await broken.start();
  const self = await new ApiClient(broken).send('GET', '/v1/keys/self', {
    headers: { authorization: `Bearer ${token}` },
  });
  assert.equal(self.json.quota.sandboxes, 7);
});
