/** Who may ask a real daemon: token, socket, hosts, strict content type, and what it refuses to start with. */
import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';

const token = 'a-token-of-the-test';
const path = '/cgi-bin/api/sandboxes';

function overSocket(socketPath: string): Promise<number> {
  return new Promise((resolve, reject) => {
    request({ socketPath, path, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on('error', reject)
      .end();
  });
}

test('a daemon with a token asks for it over TCP and nowhere else', async () => {
  await using daemon = await TestDaemon.start({
    env: { SQUASH_AUTH_TOKEN: token, SQUASH_ALLOWED_HOSTS: 'box.test' },
  });
  const api = new ApiClient(daemon);
  const as = (authorization: string) => api.send('GET', path, { headers: { authorization } });
  assert.equal((await api.get('/cgi-bin/health')).status, 200);
  for (const target of [path, '/metrics', '/v1/info', '/openapi.json', '/']) {
    assert.equal((await api.get(target)).status, 401, target);
  }
  assert.equal((await as(`Bearer ${token}`)).status, 200);
  assert.equal((await as(`Bearer ${token}x`)).status, 401);
  assert.equal((await as(`Basic ${Buffer.from(`x:${token}`).toString('base64')}`)).status, 401);
  const socket = join(daemon.dataDir, 'run/api.sock');
  assert.equal(await overSocket(socket), 200);
  assert.equal((await stat(socket)).mode & 0o777, 0o600);
  const from = (headers: Record<string, string>) =>
    api.send('GET', path, { headers: { authorization: `Bearer ${token}`, ...headers } });
  assert.equal((await from({ host: 'box.test' })).status, 200);
  assert.equal((await from({ host: 'evil.test' })).status, 403);
  assert.equal((await from({ origin: 'http://evil.test' })).status, 403);
  assert.ok(!daemon.output.includes(token), 'the token is in the log');
  const info = await from({});
  assert.ok(!info.text.includes(token));
});

test('whoever is refused hears it in the middle of a long body', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: token } });
  const long = Buffer.alloc(24_000_000);
  for (let count = 0; count < 4; count += 1) {
    const headers = { authorization: 'Bearer wrong' };
    const { status } = await fetch(`${daemon.url}/v1/images?name=x`, { method: 'PUT', headers, body: long });
    assert.equal(status, 401);
  }
});

test('SQUASH_STRICT_CONTENT_TYPE brings the original’s 415 back', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_STRICT_CONTENT_TYPE: '1' } });
  const api = new ApiClient(daemon);
  const refused = await api.post(path, { id: 'dev' });
  assert.deepEqual([refused.status, refused.json.error], [415, 'expected Content-Type: application/json']);
  const headers = { 'content-type': 'application/json' };
  assert.equal((await api.send('POST', path, { headers, body: { id: 'dev' } })).status, 201);
  await api.delete(`${path}/dev`);
});

test('a daemon does not start open to the network, nor with what it does not have', async () => {
  const table: readonly [Record<string, string>, RegExp][] = [
    [{ SQUASH_HOST: '0.0.0.0' }, /no SQUASH_AUTH_TOKEN/],
    [{ SQUASH_S3_BUCKET: 'bucket' }, /part of its key is missing/],
    [{ SQUASH_MAX_SANDBOXS: '5' }, /did you mean SQUASH_MAX_SANDBOXES/],
  ];
  for (const [env, reason] of table) {
    await assert.rejects(TestDaemon.start({ env }), reason);
  }
});
