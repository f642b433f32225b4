/**
 * Who may do what: every operation of the contract by every kind of caller, against a real daemon. The rows come from the
 * contract, so that an operation that is added is asked for here, too.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AuditEntry, AuditList } from '@squash/contract/audit';
import type { KeyBody, KeyCreated } from '@squash/contract/keys';
import type { Operation } from '@squash/contract/operations/operation';
import { operations } from '@squash/contract/operations/table';
import { includesScope, type Scope, scopes } from '@squash/contract/scope';
import { WebSocket } from 'ws';
import { execStartSchema } from '@squash/contract/exec';
import { TestDaemon } from '../support/daemon.ts';
import { exampleOf, type HeadAnswer, sendOperation } from '../support/operation-request.ts';
import { waitFor } from '../support/wait.ts';

const operatorToken = 'the-operator-of-this-test';
const sandboxes = '/cgi-bin/api/sandboxes';
const asked = (Object.values(operations) as Operation[]).filter(({ permission }) => permission !== 'none');
const refusedCodes = ['unauthorized', 'token_required', 'origin_refused', 'forbidden', 'sandbox_not_found'];

let daemon: TestDaemon;
/** Tokens by owner and scope. */
const tokens = new Map<string, string>();
let expired: string;

async function makeKey(body: Partial<KeyBody> & Pick<KeyBody, 'owner' | 'scope'>): Promise<KeyCreated> {
  return (await daemon.call('POST', '/v1/keys', { name: 'test', ...body })) as KeyCreated;
}

function tokenOf(owner: string, scope: Scope): string {
  const token = tokens.get(`${owner} ${scope}`);
  assert.ok(token !== undefined);
  return token;
}

function ask(operation: Operation, token: string | undefined, sandbox = 'box'): Promise<HeadAnswer> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return sendOperation(operation, { port: daemon.port, sandbox, headers });
}

function codeOf({ text }: HeadAnswer): string | undefined {
  return /"code":"(\w+)"/.exec(text)?.[1];
}

async function freshBox(): Promise<void> {
  await daemon.request('DELETE', `${sandboxes}/box`);
  await daemon.call('POST', sandboxes, { id: 'box', owner: 'team', memory_mb: 64 });
}

before(async () => {
  daemon = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: operatorToken } });
  for (const owner of ['team', 'other'])
    for (const scope of scopes) tokens.set(`${owner} ${scope}`, (await makeKey({ owner, scope })).token);
  const soon = new Date(Date.now() + 1_500).toISOString();
  expired = (await makeKey({ owner: 'team', scope: 'admin', expires_at: soon })).token;
  await freshBox();
  const self = operations['key.self'];
  await waitFor('the key to expire', async () => (await ask(self, expired)).status === 401);
});

after(async () => {
  await daemon[Symbol.asyncDispose]();
});

test('health alone is answered to whoever asks', async () => {
  const open = (Object.values(operations) as Operation[]).filter(({ permission }) => permission === 'none');
  assert.deepEqual(
    open.map(({ id }) => id),
    ['health'],
  );
  for (const token of [undefined, `sqk_${'0'.repeat(40)}`, expired, tokenOf('team', 'read')])
    assert.equal((await ask(operations.health, token)).status, 200);
});

test('every operation refuses whoever brings no key, a wrong one or one that has expired', async () => {
  const strangers = [undefined, 'guess', `sqk_${'0'.repeat(40)}`, `${tokenOf('team', 'admin')}0`, expired];
  for (const operation of asked) {
    for (const token of strangers) {
      const answer = await ask(operation, token);
      assert.deepEqual([answer.status, codeOf(answer)], [401, 'unauthorized'], `${operation.id} ${token}`);
      assert.ok(answer.headers['squash-request-id'], operation.id);
    }
  }
});

test('every operation refuses each scope that is smaller than its own', async () => {
  for (const operation of asked) {
    for (const scope of scopes) {
      if (operation.permission === 'none' || includesScope(scope, operation.permission)) continue;
      const answer = await ask(operation, tokenOf('team', scope));
      assert.deepEqual([answer.status, codeOf(answer)], [403, 'forbidden'], `${operation.id} ${scope}`);
    }
  }
});

test('a key that may only look reaches no port, and is not told which there are', () => {
  const ports = asked.filter(({ id }) => id.startsWith('port.'));
  assert.ok(ports.length >= 4);
  for (const { id, permission } of ports) assert.notEqual(permission, 'read', id);
});

test('to another owner every sandbox is as one that does not exist', async () => {
  const ofSandbox = asked.filter(({ path }) => path.includes('{id}'));
  assert.ok(ofSandbox.length > 10);
  for (const operation of ofSandbox) {
    // An administrator sees all.
    if (operation.permission === 'admin') continue;
    const token = tokenOf('other', operation.permission as Scope);
    const foreign = await ask(operation, token);
    const missing = await ask(operation, token, 'b0x');
    assert.deepEqual(
      [foreign.status, codeOf(foreign)],
      [404, 'sandbox_not_found'],
      `${operation.id} ${foreign.text}`,
    );
    assert.equal(foreign.text, missing.text.replaceAll('b0x', 'box'), operation.id);
  }
  for (const [id, none] of [
    ['seed.list', '[]'],
    ['sandbox.list', '{"items":[],"next":null}'],
  ] as const)
    assert.equal((await ask(operations[id], tokenOf('other', 'read'))).text, none);
});

test('every operation is there for a key of enough scope and for the operator, and each has its line', async () => {
  const lines = new Map<string, string>();
  for (const operation of asked) {
    for (const token of [tokenOf('team', operation.permission as Scope), operatorToken]) {
      const answer = await ask(operation, token);
      // The example of `image.commit` names another sandbox in its body.
      const isOther = operation.id === 'image.commit' && codeOf(answer) === 'sandbox_not_found';
      assert.ok(
        isOther || !refusedCodes.includes(codeOf(answer) ?? ''),
        `${operation.id} ${answer.status} ${answer.text}`,
      );
      assert.ok(answer.status !== 404 || codeOf(answer) !== 'not_found', operation.id);
      lines.set(String(answer.headers['squash-request-id']), operation.id);
      if (operation.method !== 'GET' && operation.path.includes('{id}')) await freshBox();
    }
  }
  const entries = await audit();
  for (const [requestId, id] of lines) {
    const entry = entries.find((each) => each.request_id === requestId);
    assert.deepEqual([entry?.operation, entry?.decision], [id, 'allowed'], id);
  }
  for (const { id, permission } of asked) {
    if (permission === 'read') continue;
    assert.ok(
      entries.some(
        (each) => each.operation === id && each.code === 'forbidden' && each.decision === 'refused',
      ),
      id,
    );
  }
  assert.ok(entries.filter(({ code }) => code === 'unauthorized').length >= 50);
});

async function audit(): Promise<readonly AuditEntry[]> {
  const entries: AuditEntry[] = [];
  let cursor: string | null = null;
  do {
    const more: string = cursor === null ? '' : `&cursor=${cursor}`;
    const page = (await daemon.call('GET', `/v1/audit?limit=1000${more}`)) as AuditList;
    entries.push(...page.items);
    cursor = page.next;
  } while (cursor !== null);
  return entries;
}

test('every operation that a quota bounds refuses an owner who is at its bounds', async () => {
  const { token } = await makeKey({ owner: 'full', scope: 'manage' });
  await daemon.call('POST', sandboxes, { id: 'full-box', owner: 'full', memory_mb: 64 });
  const none = { sandboxes: 0, memory_mb: 0, cpu: 0, disk_mb: 0, execs: 0 };
  await daemon.call('PUT', '/v1/owners/full/quota', none);
  // These take room only for what a bucket has: `s3-snapshots.test.ts`.
  const fromBucket: readonly string[] = ['snapshot.restore', 'seed.restore', 'bucket.pull', 'image.commit'];
  const bounded = asked.filter(
    ({ id, errors }) => errors.includes('quota_exceeded') && !fromBucket.includes(id),
  );
  assert.ok(bounded.length >= 5);
  for (const operation of bounded) {
    if (operation.webSocket !== undefined) {
      assert.match(await firstMessage(operation, token), /"code":"quota_exceeded"/, operation.id);
      continue;
    }
    const answer = await ask(operation, token, 'full-box');
    assert.deepEqual(
      [answer.status, codeOf(answer)],
      [429, 'quota_exceeded'],
      `${operation.id} ${answer.text}`,
    );
  }
  // What is there stays, and the operator is bound as well: it is the owner's quota.
  assert.equal((await daemon.request('POST', sandboxes, { id: 'more', owner: 'full' })).status, 429);
  assert.equal((await ask(operations['sandbox.get'], token, 'full-box')).status, 200);
  await daemon.call('PUT', '/v1/owners/full/quota', {});
  assert.equal((await ask(operations['seed.exec'], token, 'full-box')).status, 200);
});

async function firstMessage(operation: Operation, token: string): Promise<string> {
  const path = operation.path.replace('{id}', 'full-box');
  const socket = new WebSocket(`ws://127.0.0.1:${daemon.port}${path}`, operation.webSocket, {
    headers: { authorization: `Bearer ${token}` },
  });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  socket.on('error', reject);
  socket.on('open', () => socket.send(JSON.stringify(exampleOf(execStartSchema))));
  socket.on('message', (data: Buffer) => resolve(data.toString()));
  const message = await promise;
  socket.terminate();
  return message;
}
