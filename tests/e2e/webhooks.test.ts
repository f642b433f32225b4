/** Webhooks of a real daemon, taken by a real server: signed, in order, until they are taken, whoever dies meanwhile. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { systemClock } from '@squash/base/clock';
import { limits } from '@squash/contract/limits';
import type { Webhook, WebhookTest } from '@squash/contract/webhooks';
import { leafCertificate } from '@squash/installation/certificate';
import { loadInstallationCa } from '@squash/installation/installation-ca';
import { repository } from '../support/base-layer.ts';
import { ApiClient } from '../support/api-client.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { patience, waitFor } from '../support/wait.ts';
import { type Received, WebhookReceiver } from '../support/webhook-receiver.ts';

const path = '/cgi-bin/api/sandboxes';
const withLoopback = { env: { SQUASH_WEBHOOK_RANGES: '127.0.0.0/8' } };

interface Made extends Webhook {
  readonly secret: string;
}

async function make(api: ApiClient, wish: Readonly<Record<string, unknown>>): Promise<Made> {
  const answer = await api.post('/v1/webhooks', wish);
  assert.equal(answer.status, 201, answer.text);
  return answer.json as Made;
}

const stateOf = async (api: ApiClient, { id }: Webhook): Promise<Webhook> =>
  (await api.get(`/v1/webhooks/${id}`)).json as Webhook;

async function createAndDestroy(api: ApiClient, ...ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    assert.equal((await api.post(path, { id, layers: '000-base-test' })).status, 201);
    await api.delete(`${path}/${id}`);
  }
}

type IsGenuine = (secret: string, headers: Received['headers'], body: string) => boolean;
let isGenuine: IsGenuine;

/** What docs/events.md tells receivers to check with: none of the daemon's code. */
before(async () => {
  const text = await readFile(join(repository, 'docs/events.md'), 'utf8');
  const [, code = ''] = /^```js\n([\s\S]*?)^```$/m.exec(text) ?? [];
  const module = (await import(`data:text/javascript,${encodeURIComponent(code)}`)) as {
    isGenuine: IsGenuine;
  };
  ({ isGenuine } = module);
});

function isSignedWith(secret: string, { headers, body }: Received): boolean {
  const isFresh = Math.abs(Date.now() / 1_000 - Number(headers['webhook-timestamp'])) < 60 * patience;
  return isFresh && isGenuine(secret, headers, body) && !isGenuine(secret, headers, `${body} `);
}

test('the check that the documents show knows the example of the specification', () => {
  const headers = {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  };
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  assert.ok(isGenuine(secret, headers, '{"test": 2432232314}'));
});

const both = (...ids: readonly string[]): readonly string[] =>
  ids.flatMap((id) => [`sandbox.created ${id}`, `sandbox.destroyed ${id}`]);

// Each has its daemon; one waits for most of its time.
describe('webhooks', { concurrency: 2 }, () => {
  test('events are sent signed and in order, and the secret is told once', async () => {
    await using daemon = await TestDaemon.start(withLoopback);
    await using receiver = await WebhookReceiver.listen();
    const api = new ApiClient(daemon);
    await createAndDestroy(api, 'before');
    const all = await make(api, { url: `${receiver.url}/all?a=b` });
    const own = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const some = await make(api, {
      url: `${receiver.url}/some`,
      types: ['sandbox.destroyed'],
      owner: 'ann',
      secret: own,
    });
    assert.equal(some.secret, own);
    await createAndDestroy(api, 'a', 'b');
    await api.post(path, { id: 'c', owner: 'ann', layers: '000-base-test' });
    await api.delete(`${path}/c`);
    await waitFor('all', () => receiver.all.length >= 7);
    const at = (where: string): readonly Received[] => receiver.all.filter((one) => one.path === where);
    assert.deepEqual(
      at('/all?a=b').map(({ body }) => (JSON.parse(body) as { sandbox: string }).sandbox),
      ['a', 'a', 'b', 'b', 'c', 'c'],
    );
    assert.deepEqual(
      at('/some').map(({ body }) => JSON.parse(body) as unknown),
      ((await api.get('/v1/events?owner=ann&type=sandbox.destroyed')).json as { items: unknown[] }).items,
    );
    for (const one of at('/all?a=b')) assert.ok(isSignedWith(all.secret, one));
    for (const one of at('/some')) assert.ok(isSignedWith(own, one) && !isSignedWith(all.secret, one));
    assert.equal(new Set(receiver.all.map(({ headers }) => headers['webhook-id'])).size, 7);
    await waitFor('what it says of it', async () => (await stateOf(api, all)).pending === 0);
    const state = await stateOf(api, all);
    assert.ok(state.last_success_at !== null && state.last_error === null && state.given_up === 0);
    for (const where of ['/v1/webhooks', `/v1/webhooks/${all.id}`])
      assert.doesNotMatch((await api.get(where)).text, /whsec_/);
    assert.doesNotMatch(daemon.output, /whsec_/);
    assert.equal((await stat(join(daemon.dataDir, 'squash.db'))).mode & 0o777, 0o600);
  });

  test('what is not taken is sent again, until it is, over a killed daemon; others wait for nobody', async () => {
    await using daemon = await TestDaemon.start(withLoopback);
    const failures: (number | undefined)[] = [500, undefined, 503];
    await using receiver = await WebhookReceiver.listen(({ path: where }) => {
      if (where !== '/bad') return 204;
      // A microVM's start takes longer than all three tries.
      if (isOnVms && at('/good').length < 4) return 500;
      return failures.length === 0 ? 204 : failures.shift();
    });
    const at = (where: string): readonly Received[] => receiver.all.filter((one) => one.path === where);
    const api = new ApiClient(daemon);
    const bad = await make(api, { url: `${receiver.url}/bad` });
    await make(api, { url: `${receiver.url}/good` });
    await createAndDestroy(api, 'a', 'b');
    // The second try is not answered, and meanwhile all of the others' come.
    await waitFor('the other one', () => at('/good').length === 4);
    assert.ok(at('/bad').filter(({ status }) => status === 204).length === 0);
    await waitFor('a failure', async () => (await stateOf(api, bad)).last_error === 'answered 500');
    assert.equal((await stateOf(api, bad)).pending, 4);
    await waitFor(
      'the time-out',
      async () => /no answer within/.test((await stateOf(api, bad)).last_error ?? ''),
      30_000,
    );
    await daemon.kill();
    await daemon.start();
    await waitFor('all', () => at('/bad').filter(({ status }) => status === 204).length >= 4, 30_000);
    assert.deepEqual([...new Set(receiver.taken)], both('a', 'b'));
    assert.equal(at('/good').length, 4);
    const [first, second] = at('/bad');
    assert.equal(first?.headers['webhook-id'], second?.headers['webhook-id']);
    for (const one of at('/bad')) assert.ok(isSignedWith(bad.secret, one));
  });

  test('a receiver that was away while the daemon was killed gets everything, in order', async () => {
    await using daemon = await TestDaemon.start(withLoopback);
    const api = new ApiClient(daemon);
    const first = await WebhookReceiver.listen();
    const { port, url } = first;
    await make(api, { url });
    await createAndDestroy(api, 'a');
    await waitFor('the first', () => first.taken.length === 2);
    await first[Symbol.asyncDispose]();
    await createAndDestroy(api, 'b');
    await daemon.kill();
    await daemon.start();
    await createAndDestroy(api, 'c');
    await using again = await WebhookReceiver.listen(() => 204, port);
    await waitFor('the rest', () => again.taken.length >= 4, 20_000);
    assert.deepEqual(again.taken, both('b', 'c'));
  });

  test('a webhook is tried, changed, stopped by 410, and removed', async () => {
    await using daemon = await TestDaemon.start(withLoopback);
    let status = 302;
    await using receiver = await WebhookReceiver.listen(() => status);
    const api = new ApiClient(daemon);
    const hook = await make(api, { url: receiver.url });
    const tried = async (): Promise<Record<string, unknown>> =>
      (await api.post(`/v1/webhooks/${hook.id}/test`)).json as Record<string, unknown>;
    const refused = await tried();
    assert.deepEqual([refused['delivered'], refused['status']], [false, 302]);
    assert.match(String(refused['error']), /redirects are not followed/);
    assert.deepEqual(
      receiver.all.map((one) => one.path),
      ['/'],
    );
    status = 204;
    assert.equal((await tried())['delivered'], true);
    assert.ok(receiver.all.every((one) => isSignedWith(hook.secret, one)));
    status = 410;
    await createAndDestroy(api, 'a');
    await waitFor('it to be stopped', async () => !(await stateOf(api, hook)).enabled);
    const seen = receiver.all.length;
    await createAndDestroy(api, 'b');
    status = 204;
    const change = { enabled: true, url: `${receiver.url}/new`, types: ['sandbox.created'] };
    const changed = (await api.send('PATCH', `/v1/webhooks/${hook.id}`, { body: change })).json as Webhook;
    assert.deepEqual([changed.enabled, changed.url, changed.pending], [true, change.url, 0]);
    await createAndDestroy(api, 'c');
    await waitFor('the next', () => receiver.all.length > seen);
    assert.deepEqual(
      receiver.all
        .slice(seen)
        .map((one) => [one.path, (JSON.parse(one.body) as { sandbox: string }).sandbox]),
      [['/new', 'c']],
    );
    assert.equal((await api.delete(`/v1/webhooks/${hook.id}`)).status, 204);
    assert.equal((await api.get(`/v1/webhooks/${hook.id}`)).status, 404);
    for (let count = 0; count < limits.webhooksMax; count += 1) await make(api, { url: 'http://8.8.8.8/' });
    assert.equal((await api.post('/v1/webhooks', { url: receiver.url })).status, 429);
  });

  test('without the operator’s word nothing but public addresses is sent to', async () => {
    await using daemon = await TestDaemon.start();
    await using receiver = await WebhookReceiver.listen();
    const api = new ApiClient(daemon);
    const codeOf = async (url: string): Promise<unknown> =>
      (await api.post('/v1/webhooks', { url })).json.code;
    assert.equal(await codeOf(receiver.url), 'webhook_address_refused');
    assert.equal(await codeOf('http://[::ffff:169.254.169.254]/latest/meta-data'), 'webhook_address_refused');
    for (const url of [
      'ftp://example.com/',
      'http://user:word@example.com/',
      'http://example.com/#x',
      'example.com',
    ]) {
      assert.equal(await codeOf(url), 'invalid_request', url);
    }
    // A name says nothing yet: it is judged by where it leads each time.
    const named = await make(api, { url: `http://localhost:${receiver.port}/` });
    await createAndDestroy(api, 'a');
    await waitFor('the refusal', async () => /loopback/.test((await stateOf(api, named)).last_error ?? ''));
    const test_ = (await api.post(`/v1/webhooks/${named.id}/test`)).json as {
      delivered: boolean;
      error: string;
    };
    assert.ok(!test_.delivered && /SQUASH_WEBHOOK_RANGES/.test(test_.error));
    assert.deepEqual(receiver.all, []);
  });

  test('over TLS the certificate must be valid for the name, though an address is dialled', async () => {
    await using daemon = await TestDaemon.start(withLoopback);
    const directory = await mkdtemp(join(tmpdir(), 'squash-webhook-ca-'));
    try {
      const ca = await loadInstallationCa(directory, systemClock);
      const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const validity = { fromMs: Date.now() - 60_000, untilMs: Date.now() + 3_600_000 };
      const cert = leafCertificate(ca, { host: 'hook.localhost', publicKey: pair.publicKey, validity });
      const key = pair.privateKey.export({ type: 'pkcs8', format: 'pem' });
      const names: unknown[] = [];
      const server = createServer({ key, cert }, (request, response) => {
        names.push((request.socket as TLSSocket).servername);
        response.writeHead(204).end();
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const authority = join(daemon.dataDir, 'webhook-ca.pem');
      await writeFile(authority, ca.certificate, { mode: 0o644 });
      await daemon.stop();
      await daemon.start({ NODE_EXTRA_CA_CERTS: authority });
      const api = new ApiClient(daemon);
      const tried = async (host: string): Promise<WebhookTest> => {
        const { id } = await make(api, { url: `https://${host}:${port}/` });
        return (await api.post(`/v1/webhooks/${id}/test`)).json as WebhookTest;
      };
      const good = await tried('hook.localhost');
      assert.deepEqual([good.delivered, good.status], [true, 204], good.error ?? '');
      for (const host of ['other.localhost', '127.0.0.1']) {
        assert.match((await tried(host)).error ?? '', /altnames/, host);
      }
      assert.deepEqual(names, ['hook.localhost']);
      server.close();
      server.closeAllConnections();
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
