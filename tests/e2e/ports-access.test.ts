/** Who may see a port: links, cookies, credentials, public ones, pages of others, and whose connection it is. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { promisify } from 'node:util';
import type { AuditEntry } from '@squash/contract/audit';
import { type KeyCreated, keyCreatedSchema } from '@squash/contract/keys';
import { portLinkSchema } from '@squash/contract/ports';
import { ApiClient } from '../support/api-client.ts';
import { type Ask, PreviewScene } from '../support/previews.ts';

const run = promisify(execFile);
const html = { accept: 'text/html' };
const bearer = { authorization: 'Bearer the-operators-token' };
const env = { SQUASH_AUTH_TOKEN: 'the-operators-token', SQUASH_PREVIEW_DOMAIN: 'preview.test' };

describe('a port that wants a token', () => {
  let scene: PreviewScene;
  let token = '';
  before(async () => {
    scene = await PreviewScene.start(['dev', 'other'], { env });
    await scene.serve('dev', 3000);
    await scene.serve('dev', 3001);
    token = await link('dev', 3000);
  });
  after(async () => {
    await scene[Symbol.asyncDispose]();
  });

  async function link(id: string, port: number, expires = 600): Promise<string> {
    const answer = await scene.daemon.call('POST', `/v1/sandboxes/${id}/ports/${port}/url`, {
      expires_s: expires,
    });
    return portLinkSchema.parse(answer).token;
  }
  const setAccess = (access: string) =>
    scene.daemon.call('PUT', '/v1/sandboxes/dev/ports/3000', { access }) as Promise<unknown>;
  const status = async (name: string, ask: Ask): Promise<number> => (await scene.ask(name, ask)).status;

  it('tells nobody who may not see it whether there is such a sandbox', async () => {
    const answers = await Promise.all(
      ['3000-dev', '3999-dev', '3000-none', '0-x'].map((name) => scene.ask(name)),
    );
    for (const { status: code, text, headers } of answers) {
      assert.equal(code, 401);
      assert.equal(text, answers[0]?.text);
      assert.equal(headers['www-authenticate'], 'Bearer');
    }
    assert.match(
      (await scene.ask('3000-dev', { headers: html })).text,
      /<html[\s\S]*squash url SANDBOX PORT/,
    );
    assert.equal(await status('3000-dev', { path: '/cgi-bin/health' }), 401);
    const wrong = { authorization: 'Bearer the-operators-tokem' };
    assert.equal(await status('3000-dev', { headers: wrong }), 401);
  });

  it('is shown to a credential of the daemon, which the sandbox does not get', async () => {
    const seen = await scene.ask('3000-dev', { path: '/echo', headers: bearer });
    assert.equal(seen.status, 200);
    assert.doesNotMatch(seen.text, /authorization|operators/i);
    assert.equal(await status('3000-none', { headers: bearer }), 404);
    const own = { authorization: 'Basic dXNlcjpwdw==', 'squash-preview-token': token };
    const behind = await scene.ask('3000-dev', { path: '/echo', headers: own });
    assert.match(behind.text, /Basic dXNlcjpwdw==/);
    assert.doesNotMatch(behind.text, /preview-token/i);
  });

  it('is opened by a link, whose token moves from the address into a cookie of this host', async () => {
    const opened = await scene.ask('3000-dev', {
      path: `/echo?a=1&squash_token=${token}&b=2`,
      headers: html,
    });
    assert.equal(opened.status, 303);
    assert.equal(opened.headers.location, '/echo?a=1&b=2');
    assert.equal(opened.headers['referrer-policy'], 'no-referrer');
    const [cookie = ''] = opened.headers['set-cookie'] ?? [];
    assert.match(cookie, /^squash_preview=[\w.-]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=(59\d|600)$/);
    const [pair = ''] = cookie.split(';');
    const seen = await scene.ask('3000-dev', { path: '/echo', headers: { cookie: `app=1; ${pair}; b=2` } });
    assert.equal(seen.status, 200);
    assert.match(seen.text, /"app=1; b=2"/);
    assert.doesNotMatch(seen.text, /squash_preview/);
    const tossed = { cookie: `squash_preview=1.x; ${pair}` };
    assert.equal(await status('3000-dev', { path: '/echo', headers: tossed }), 200);
    const secure = await scene.ask('3000-dev', {
      path: `/?squash_token=${token}`,
      domain: 'preview.test',
      headers: { ...html, 'x-forwarded-proto': 'https' },
    });
    assert.match(secure.headers['set-cookie']?.[0] ?? '', /^__Host-squash_preview=.*; Secure$/);
  });

  it('takes a link of a program in place, and leads nobody elsewhere', async () => {
    const seen = await scene.ask('3000-dev', { path: `/echo?squash_token=${token}` });
    assert.equal(seen.json.url, '/echo');
    for (const [path, location] of [
      [`//evil.test/?squash_token=${token}`, '/.//evil.test/'],
      [`/\\evil.test?squash_token=${token}`, '/./\\evil.test'],
    ] as const) {
      const opened = await scene.ask('3000-dev', { path, headers: html });
      assert.equal(opened.headers.location, location);
      assert.equal(new URL(location, 'http://here.test/').host, 'here.test');
    }
  });

  it('is not shown to a token of another port or sandbox, one that is over, changed, or of a sandbox before', async () => {
    const mac = token.split('.')[1] ?? '';
    const later = Math.floor(Date.now() / 1_000) + 9_000;
    for (const [name, text] of [
      ['3001-dev', token],
      ['3000-other', token],
      ['3000-dev', `${later}.${mac}`],
      ['3000-dev', `${token}x`],
      ['3000-dev', ''],
      ['3000-dev', `1.${'A'.repeat(43)}`],
    ] as const) {
      const seen = await scene.ask(name, { path: `/?squash_token=${text}`, headers: html });
      assert.equal(seen.status, 401, text);
      assert.match(seen.text, /its time is over/);
      assert.equal(await status(name, { headers: { cookie: `squash_preview=${text}` } }), 401);
    }
    const before = await link('other', 80);
    await scene.daemon.call('DELETE', '/cgi-bin/api/sandboxes/other');
    await scene.daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'other', layers: ['000-base-debian'] });
    assert.equal(await status('80-other', { path: `/?squash_token=${before}` }), 401);
    const short = await link('dev', 3000, 1);
    const again = async (): Promise<number> => await status('3000-dev', { path: `/?squash_token=${short}` });
    while ((await again()) !== 401) await new Promise((resolve) => setTimeout(resolve, 100));
  });

  it('counts a cookie for its own pages and followed links, not for pages of others', async () => {
    const cookie = `squash_preview=${token}`;
    const host = scene.host('3000-dev');
    const page = (name: string, domain?: string) => `http://${scene.host(name, domain)}`;
    const followed = {
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    for (const [method, headers, expected] of [
      ['GET', {}, 200],
      ['GET', { 'sec-fetch-site': 'same-origin' }, 200],
      ['GET', { 'sec-fetch-site': 'none' }, 200],
      ['POST', { origin: `http://${host}`, 'sec-fetch-site': 'same-origin' }, 200],
      ['POST', { origin: page('3001-dev'), 'sec-fetch-site': 'cross-site' }, 200],
      ['GET', followed, 200],
      ['GET', { ...followed, 'sec-fetch-dest': 'iframe' }, 403],
      ['POST', followed, 403],
      ['GET', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }, 403],
      [
        'GET',
        { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' },
        403,
      ],
      ['POST', { origin: page('3000-other'), 'sec-fetch-site': 'cross-site' }, 403],
      ['POST', { origin: page('3000-other') }, 403],
      ['POST', { origin: page('3000-dev', 'preview.test') }, 403],
      ['POST', { origin: 'http://3000-dev.localhost:1' }, 403],
      ['POST', { origin: 'http://evil.test' }, 403],
      ['POST', { origin: 'null' }, 403],
    ] as const) {
      const seen = await scene.ask('3000-dev', { method, path: '/echo', headers: { cookie, ...headers } });
      assert.equal(seen.status, expected, JSON.stringify([method, headers]));
    }
    const upgrade = (origin: string) =>
      scene.raw(
        `GET / HTTP/1.1\r\nhost: ${host}\r\nconnection: upgrade\r\nupgrade: websocket\r\norigin: ${origin}\r\ncookie: ${cookie}\r\n\r\n`,
        500,
      );
    assert.match(await upgrade(`http://${host}`), /^HTTP\/1\.1 101 /);
    assert.match(await upgrade('http://evil.test'), /^HTTP\/1\.1 403 [\s\S]*origin_refused/);
  });

  it('is shown to everybody while it is public, and its key outlives the daemon', async () => {
    await setAccess('public');
    assert.equal(await status('3000-dev', { path: '/echo', headers: { origin: 'http://evil.test' } }), 200);
    assert.equal(await status('3001-dev', { path: '/echo' }), 401);
    await scene.daemon.kill();
    await scene.daemon.start();
    assert.equal(await status('3000-dev', { path: '/echo' }), 200);
    await setAccess('token');
    assert.equal(await status('3000-dev', { path: '/echo' }), 401);
    assert.equal(await status('3000-dev', { path: `/echo?squash_token=${token}` }), 200);
    assert.equal((await stat(join(scene.daemon.dataDir, 'preview.key'))).mode & 0o777, 0o600);
  });

  it('is shown to a key of its owner that may run commands, while the key holds', async () => {
    const key = async (owner: string, scope: string): Promise<KeyCreated> =>
      keyCreatedSchema.parse(await scene.daemon.call('POST', '/v1/keys', { name: 'test', owner, scope }));
    const { owner } = (await scene.daemon.call('GET', '/v1/sandboxes/dev')) as { readonly owner: string };
    const own = await key(owner, 'exec');
    for (const [{ token: held }, expected] of [
      [own, 200],
      [await key(owner, 'admin'), 200],
      [await key('another', 'admin'), 200],
      [await key(owner, 'read'), 401],
      [await key('another', 'manage'), 401],
    ] as const) {
      const seen = await scene.ask('3000-dev', {
        path: '/echo',
        headers: { authorization: `Bearer ${held}` },
      });
      assert.equal(seen.status, expected);
      assert.ok(!seen.text.includes(held));
    }
    const held = `authorization: Bearer ${own.token}\r\n`;
    const host = `host: ${scene.host('3000-dev')}\r\n`;
    const preview = `squash-preview-token: ${token}\r\n`;
    const both = await scene.raw(
      `GET /echo HTTP/1.1\r\n${host}${preview}authorization: Basic app\r\n${held}connection: close\r\n\r\n`,
    );
    assert.match(both, /200 OK[\s\S]*Basic app/);
    assert.ok(!both.includes(own.token));
    const app = { authorization: 'Bearer of-the-program', cookie: `squash_preview=${token}` };
    assert.match(
      (await scene.ask('3000-dev', { path: '/echo', headers: app })).text,
      /Bearer of-the-program/,
    );
    const asked = await new ApiClient(scene.daemon).send('POST', '/v1/sandboxes/dev/ports/3000/url', {
      headers: { authorization: `Bearer ${own.token}` },
      body: {},
    });
    const linked = { path: `/echo?squash_token=${asked.json.token}` };
    assert.equal(await status('3000-dev', linked), 200);
    const visitors = async (limit: number): Promise<readonly string[]> => {
      const { items } = await scene.daemon.call('GET', `/v1/audit?operation=preview.visit&limit=${limit}`);
      return items.map(({ decision, caller }: AuditEntry) => `${decision} ${caller.kind}`);
    };
    assert.deepEqual(await visitors(1), ['allowed unknown']);
    const byOperator = `authorization: ${bearer.authorization}\r\n`;
    const get = `GET /echo HTTP/1.1\r\n${host}`;
    await scene.raw(`${get}${byOperator}\r\n${get}${byOperator}\r\n${get}${held}connection: close\r\n\r\n`);
    assert.deepEqual(await visitors(3), ['allowed key', 'allowed operator', 'allowed unknown']);
    const socket = await scene.dial();
    socket.write(`GET / HTTP/1.1\r\n${host}${held}connection: upgrade\r\nupgrade: websocket\r\n\r\n`);
    await once(socket, 'data');
    const closed = once(socket.resume(), 'end');
    await scene.daemon.call('DELETE', `/v1/keys/${own.id}`);
    await closed;
    socket.destroy();
    const gone = await scene.ask('3000-dev', {
      path: '/echo',
      headers: { authorization: `Bearer ${own.token}`, 'squash-preview-token': token },
    });
    assert.equal(gone.status, 200);
    assert.ok(!gone.text.includes(own.token));
    assert.equal(await status('3000-dev', { headers: { authorization: `Bearer ${own.token}` } }), 401);
    assert.equal(await status('3000-dev', linked), 401);
    const { items } = await scene.daemon.call('GET', '/v1/audit?operation=preview.visit&limit=2');
    assert.deepEqual(
      items.map(({ decision, code, caller }: AuditEntry) => [decision, code, caller.kind]),
      [
        ['refused', 'unauthorized', 'unknown'],
        ['refused', 'unauthorized', 'unknown'],
      ],
    );
    const seen = await scene.daemon.call(
      'GET',
      '/v1/audit?operation=preview.visit&decision=allowed&sandbox=dev',
    );
    assert.ok(seen.items.some(({ caller }: AuditEntry) => caller.kind === 'key' && caller.key === own.id));
  });

  it('is found under the operator’s domain, and under no name below or beside it', async () => {
    const ask = { path: '/echo', headers: bearer };
    assert.equal(await status('3000-dev', { ...ask, domain: 'preview.test' }), 200);
    assert.equal(await status('3000-dev.deep', { ...ask, domain: 'preview.test' }), 403);
    assert.equal(await status('3000-dev', { ...ask, domain: 'evilpreview.test' }), 403);
    assert.equal(await status('3000-dev', { ...ask, domain: 'preview.test.evil.test' }), 403);
  });
});

const isRoot = process.getuid?.() === 0;

test('without a token a port is shown to the daemon’s user, and to others by a link alone', {
  skip: isRoot ? false : 'needs root',
}, async () => {
  await using scene = await PreviewScene.start(['dev']);
  await scene.serve('dev', 3000);
  const curl = async (path: string): Promise<string> => {
    const user = ['--reuid=64001', '--regid=64001', '--clear-groups', '--'];
    const words = [
      'curl',
      '-s',
      '-o',
      '/dev/null',
      '-w',
      '%{http_code}',
      `http://${scene.host('3000-dev')}${path}`,
    ];
    return (await run('setpriv', [...user, ...words])).stdout;
  };
  assert.equal((await scene.ask('3000-dev', { path: '/echo' })).status, 200);
  assert.equal(await curl('/echo'), '401');
  // The user's own connection is a browser's, too: pages of others may use it no more than a cookie.
  const foreign = { origin: 'http://evil.test', 'sec-fetch-site': 'cross-site' };
  assert.equal((await scene.ask('3000-dev', { path: '/echo', headers: foreign })).status, 403);
  const answer: unknown = await scene.daemon.call('POST', '/v1/sandboxes/dev/ports/3000/url', {});
  assert.equal(await curl(`/echo?squash_token=${portLinkSchema.parse(answer).token}`), '200');
  await scene.daemon.call('PUT', '/v1/sandboxes/dev/ports/3000', { access: 'public' });
  assert.equal(await curl('/echo'), '200');
});
