/**
 * The real process with a token endpoint and a server that the test plays: secrets whose value is refreshed on the host. Refresh
 * tokens are good for one refresh each, as at the vendors; one that comes a second time ends the whole credential.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { EgressUnderTest } from '../../tests/support/egress-process.ts';
import { addressRecord, queryFor, readAnswer } from '../../tests/support/name-server.ts';
import type { ScriptedRelay } from '../../tests/support/scripted-relay.ts';
import { waitFor } from '../../tests/support/wait.ts';
import { systemClock } from '@squash/base/clock';
import { isErrno } from '@squash/base/errno';
import { leafCertificate } from '@squash/installation/certificate';
import { loadInstallationCa } from '@squash/installation/installation-ca';
import { upstreamRoots } from './intercept/upstream-socket.ts';
import { requestTokens } from './secrets/token-request.ts';

const host = 'api.example.com';
const stack = new AsyncDisposableStack();
let egress: EgressUnderTest;
let relay: ScriptedRelay;
let instance = 0;
let address: Uint8Array;

/** What the token endpoint was asked by whom, and how it answers. */
const asked: { readonly client: string; readonly token: string; readonly type: string }[] = [];
const spent = new Set<string>();
let expiresInS: number | undefined = 3_600;
let broken: { status: number; body: string } | undefined;
/** What the server was sent as `Authorization`. */
const told: string[] = [];

function tokenEndpoint(request: IncomingMessage, response: ServerResponse): void {
  void textOf(request).then((body) => {
    const type = request.headers['content-type'] ?? '';
    const fields = (
      type === 'application/json' ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(body))
    ) as Record<string, string>;
    const { refresh_token: token = '', client_id: client = '', grant_type: grant } = fields;
    asked.push({ client, token, type });
    if (client === 'hanging') return;
    if (client === 'broken' && broken !== undefined)
      return void response.writeHead(broken.status).end(broken.body);
    if (grant !== 'refresh_token' || spent.has(token)) {
      return void response.writeHead(400).end(JSON.stringify({ error: 'invalid_grant', hint: token }));
    }
    spent.add(token);
    const round = asked.filter((each) => each.client === client).length;
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({
        access_token: `access-token-${client}-${round}`,
        refresh_token: `refresh-token-${client}-${round}`,
        token_type: 'Bearer',
        expires_in: expiresInS,
      }),
    );
  });
}

function api(request: IncomingMessage, response: ServerResponse): void {
  const { authorization = '' } = request.headers;
  told.push(authorization);
  response.statusCode = request.url === '/refused' ? 401 : 200;
  response.setHeader('content-type', 'text/plain');
  response.end(`you said ${authorization}`);
}

async function listen<T extends Server>(server: T): Promise<T> {
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

let apiPort = 0;
let tokenPort = 0;

interface Extra {
  readonly access_token?: string;
  readonly expires_at?: string;
  readonly body?: string;
}

function secretOf(client: string, extra: Extra = {}): object {
  return {
    placeholder: placeholderOf(client),
    allowed_hosts: [`${host}:${apiPort}`],
    oauth: {
      token_url: `http://127.0.0.1:${tokenPort}/token`,
      client_id: client,
      refresh_token: `refresh-token-${client}-0`,
      ...extra,
    },
  };
}

const placeholderOf = (client: string): string => `placeholder-${client}-0123456789`;
const secondsAway = (seconds: number): string => new Date(Date.now() + seconds * 1_000).toISOString();

function writeSecrets(secrets: object): void {
  writeFileSync(join(egress.dataDir, 'secrets.json'), JSON.stringify({ secrets }), { mode: 0o600 });
}

async function enter(): Promise<void> {
  relay = await egress.launcher.relay((instance += 1), 'box');
  address = Uint8Array.from(readAnswer(await relay.ask(queryFor(host, 1))).data[0] ?? []);
}

/** What a program in the sandbox reads. */
async function get(bearer: string, path = '/'): Promise<string> {
  const program = relay.open(address, apiPort);
  program.write(
    `GET ${path} HTTP/1.1\r\nHost: ${host}:${apiPort}\r\nAuthorization: Bearer ${bearer}\r\nAccept: application/json\r\n\r\n`,
  );
  let answer = '';
  await waitFor('the whole answer', () => {
    answer = program.received.toString();
    const [, length, body] = /content-length: (\d+)\r\n.*\r\n\r\n(.*)$/is.exec(answer) ?? [];
    return body !== undefined && Buffer.byteLength(body) === Number(length);
  });
  program.reset();
  assert.ok(!/(?:access|refresh)-token/.test(answer), answer);
  return answer;
}

const askedOf = (client: string): readonly string[] =>
  asked.filter((each) => each.client === client).map(({ token }) => token);

let hanging: Promise<string>;

before(async () => {
  apiPort = ((await listen(createServer(api))).address() as AddressInfo).port;
  tokenPort = ((await listen(createServer(tokenEndpoint))).address() as AddressInfo).port;
  egress = stack.use(await EgressUnderTest.start({ box: { policy: { allow: [host] } } }));
  egress.names.zone.set(host, [addressRecord('127.0.0.1')]);
  writeSecrets({
    JSON_KEY: secretOf('json', { body: 'json' }),
    EARLY: secretOf('early', { access_token: 'access-token-early-0', expires_at: secondsAway(30) }),
    SHORT: secretOf('short', { access_token: 'access-token-short-0', expires_at: secondsAway(-1) }),
    BROKEN: secretOf('broken'),
    HANGING: secretOf('hanging'),
  });
  await enter();
  hanging = get(placeholderOf('hanging'));
});
after(() => stack.disposeAsync());

test('requests that come at once wait for one refresh, and each carries the token, which comes back as the placeholder', async () => {
  const placeholder = placeholderOf('json');
  const answers = await Promise.all(Array.from({ length: 8 }, () => get(placeholder)));
  for (const answer of answers) assert.ok(answer.endsWith(`you said Bearer ${placeholder}`), answer);
  assert.deepEqual(
    told.splice(0),
    Array.from({ length: 8 }, () => 'Bearer access-token-json-1'),
  );
  assert.deepEqual(askedOf('json'), ['refresh-token-json-0']);
  assert.equal(asked.find(({ client }) => client === 'json')?.type, 'application/json');
});

test('a token is replaced before it ends, and nothing waits for that', async () => {
  await get(placeholderOf('early'));
  assert.deepEqual(told.splice(0), ['Bearer access-token-early-0']);
  await waitFor('the refreshed token', async () => {
    await get(placeholderOf('early'));
    return told.splice(0)[0] === 'Bearer access-token-early-1';
  });
  // The one before is good for a while at many servers: answers hold neither.
  for (const token of ['access-token-early-0', 'access-token-early-1']) {
    assert.ok((await get(token)).endsWith(`you said Bearer ${placeholderOf('early')}`));
  }
  assert.deepEqual(askedOf('early'), ['refresh-token-early-0']);
  told.splice(0);
});

test('one that has ended is never sent: it is refreshed first, each time with the refresh token that came last', async () => {
  expiresInS = 1;
  await get(placeholderOf('short'));
  assert.deepEqual(told.splice(0), ['Bearer access-token-short-1']);
  await waitFor('the third token', async () => {
    await get(placeholderOf('short'));
    return told.splice(0).includes('Bearer access-token-short-3');
  });
  expiresInS = 3_600;
  assert.deepEqual(
    askedOf('short').slice(0, 3),
    [0, 1, 2].map((round) => `refresh-token-short-${round}`),
  );
});

test('a refresh that fails is told by its code, asked for once in its time, and hinders nobody else', async () => {
  const placeholder = placeholderOf('broken');
  for (const [status, body, code] of [
    [503, 'refresh-token-broken-0', 'status_503'],
    [200, '{"access_token":"x"}', 'bad_answer'],
    [400, '{"error":"invalid_grant"}', 'invalid_grant'],
  ] as const) {
    broken = { status, body };
    const before = askedOf('broken').length;
    await waitFor('the failure', async () => {
      const answer = await get(placeholder);
      assert.match(answer, /^HTTP\/1\.1 502 /);
      const { error } = JSON.parse(answer.slice(answer.indexOf('{'))) as {
        error: { code: string; message: string };
      };
      assert.equal(error.code, 'secret_not_refreshed');
      return error.message === `the secret "BROKEN" can not be refreshed: ${code}`;
    });
    assert.equal(askedOf('broken').length, before + 1);
  }
  assert.deepEqual(told.splice(0), []);
  const [row] = (await egress.decisions('sandbox=box&kind=request')).filter(
    ({ rule }) => rule === 'secret_not_refreshed',
  );
  assert.deepEqual([row?.verdict, row?.secrets], ['blocked', ['BROKEN']]);
  assert.match((await egress.stats()).warnings.join(), /"BROKEN" can not be refreshed: invalid_grant/);
  await get('anything-else');
  await get(placeholderOf('json'));
  assert.deepEqual(told.splice(0), ['Bearer anything-else', 'Bearer access-token-json-1']);
  broken = undefined;
  await waitFor('its recovery', async () => (await get(placeholder)).startsWith('HTTP/1.1 200'), 15_000);
  told.splice(0);
});

test('the next process has the tokens of the one before, however that ended, and a 401 makes it refresh', async () => {
  assert.ok((await hanging).includes('can not be refreshed: timeout'), await hanging);
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    const before = asked.length;
    await egress.end(signal);
    await egress.spawn();
    await egress.sync({ box: { policy: { allow: [host] } } });
    await enter();
    const round = askedOf('json').length;
    await get(placeholderOf('json'));
    assert.deepEqual(told.splice(0), [`Bearer access-token-json-${round}`]);
    assert.equal(asked.length, before, 'it is good still');
    await get(placeholderOf('json'), '/refused');
    await Promise.all([get(placeholderOf('json')), get(placeholderOf('json'))]);
    assert.deepEqual(
      told.splice(0),
      [round, round + 1, round + 1].map((each) => `Bearer access-token-json-${each}`),
    );
    // Once in a minute: who can have 401 answered can't have the endpoint asked without end.
    await get(placeholderOf('json'), '/refused');
    await get(placeholderOf('json'));
    assert.deepEqual(
      told.splice(0),
      [round + 1, round + 1].map((each) => `Bearer access-token-json-${each}`),
    );
  }
  assert.deepEqual(
    askedOf('json'),
    [0, 1, 2].map((round) => `refresh-token-json-${round}`),
  );
});

test('an endpoint over TLS is verified before it gets anything', async () => {
  const directory = join(egress.dataDir, 'tls');
  const ca = await loadInstallationCa(directory, systemClock);
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const nowMs = systemClock.wallMs();
  const validity = { fromMs: nowMs - 1_000, untilMs: nowMs + 86_400_000 };
  const cert = leafCertificate(ca, { host: 'localhost', publicKey: pair.publicKey, validity });
  const key = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const server = await listen(createTlsServer({ key, cert }, tokenEndpoint));
  const { port } = server.address() as AddressInfo;
  const oauth = {
    token_url: `https://localhost:${port}/`,
    client_id: 'tls',
    refresh_token: 'refresh-token-tls',
  };
  await assert.rejects(requestTokens(oauth, oauth.refresh_token, upstreamRoots()), {
    name: 'CredentialFailed',
  });
  assert.deepEqual(askedOf('tls'), []);
  const roots = upstreamRoots(join(directory, 'ca.pem'));
  const { accessToken } = await requestTokens(oauth, oauth.refresh_token, roots);
  assert.equal(accessToken, 'access-token-tls-1');
  rmSync(directory, { recursive: true });
});

test('tokens stand in one private file and nowhere else, and not there either when the secret has gone', async () => {
  const { dataDir } = egress;
  const file = join(dataDir, 'egress/credentials.json');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.ok(readFileSync(file, 'utf8').includes('refresh-token-json-3'));
  const textIn = (name: string): string => {
    const path = join(dataDir, name);
    try {
      return statSync(path).isFile() ? readFileSync(path, 'latin1') : '';
    } catch (error) {
      // Node's compile cache and SQLite write files that are soon gone.
      if (isErrno(error, 'ENOENT')) return '';
      throw error;
    }
  };
  const holding = (): readonly string[] =>
    (readdirSync(dataDir, { recursive: true }) as string[]).filter((name) =>
      /(?:access|refresh)-token-/.test(textIn(name)),
    );
  assert.deepEqual(holding().toSorted(), ['egress/credentials.json', 'secrets.json']);
  assert.match(egress.log(), /credential\.refreshed.*JSON_KEY/);
  assert.ok(
    !/(?:access|refresh)-token/.test(JSON.stringify([await egress.decisions(), await egress.stats()])),
  );
  writeSecrets({});
  await waitFor('the end of the tokens', () => holding().length === 0);
});
