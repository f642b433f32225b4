/** The real process behind a proxy on this host that looks names up: what the proxy gets to hear. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as pass } from 'node:timers/promises';
import { EgressUnderTest } from '../../../tests/support/egress-process.ts';
import { queryFor, readAnswer } from '../../../tests/support/name-server.ts';
import type { ScriptedRelay } from '../../../tests/support/scripted-relay.ts';
import { waitFor } from '../../../tests/support/wait.ts';

import { egressLimits as limits } from '../limits.ts';

/** Agrees to every CONNECT, and echoes behind it. */
async function proxyHere(heard: string[]): Promise<{ readonly port: number } & AsyncDisposable> {
  const server = createServer((socket) => {
    socket.once('data', (head: Buffer) => {
      heard.push(/^CONNECT (\S+)/.exec(head.toString('latin1'))?.[1] ?? '?');
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(socket);
    });
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return { port: address.port, [Symbol.asyncDispose]: async () => void server.close() };
}

const daemonPort = 8_080;
const stack = new AsyncDisposableStack();
const heard: string[] = [];
let egress: EgressUnderTest;
let upstreams: Record<string, string>;
let instance = 100;
const boxes = {
  open: { policy: { allow: ['*'] }, upstream: 'here' },
  word: { policy: { allow: ['*'] }, upstream: 'word' },
  naming: { policy: { allow: ['*', 'nas.local:8888', 'metadata.google.internal'] }, upstream: 'here' },
};

before(async () => {
  const { port } = stack.use(await proxyHere(heard));
  upstreams = { here: `http://127.0.0.1:${port}`, word: `http://localhost:${port}` };
  egress = stack.use(await EgressUnderTest.start({}));
  await egress.sync(boxes, { upstreams, listeners: [{ address: '127.0.0.1', port: daemonPort }] });
});
after(() => stack.disposeAsync());

async function addressOf(relay: ScriptedRelay, name: string): Promise<string> {
  const [address] = readAnswer(await relay.ask(queryFor(name, 1))).data;
  assert.ok(address !== undefined, `${name} has an address`);
  return address.join('.');
}

async function reaches(sandbox: string, name: string, port: number): Promise<boolean> {
  const relay = await egress.launcher.relay((instance += 1), sandbox);
  const program = relay.open(await addressOf(relay, name), port);
  program.write('PING\r\n');
  const found = await program.read('PING').then(
    () => true,
    () => false,
  );
  program.reset();
  return found;
}

async function refusalOf(sandbox: string, name: string): Promise<string | undefined> {
  const kind = 'kind=connection&verdict=denied';
  return await waitFor('the row', async () => {
    const rows = await egress.decisions(`sandbox=${sandbox}&${kind}`);
    return rows.find(({ host }) => host === name)?.rule;
  });
}

test('names that are not public reach no proxy that looks names up, unless a rule names them', async () => {
  const before = heard.length;
  for (const name of ['router', 'nas.local', 'metadata.google.internal']) {
    assert.equal(await reaches('open', name, 8888), false, name);
    assert.equal(await refusalOf('open', name), 'private_name');
  }
  assert.equal(await reaches('naming', 'nas.local', 80), false);
  assert.deepEqual(heard.slice(before), []);
  assert.equal(await reaches('open', 'www.example.com', 8888), true);
  assert.equal(await reaches('naming', 'nas.local', 8888), true);
  assert.equal(await reaches('naming', 'metadata.google.internal', 80), true);
  const those = ['www.example.com:8888', 'nas.local:8888', 'metadata.google.internal:80'];
  assert.deepEqual(heard.slice(before), those);
});

test('the daemon’s port is reached by no name through a proxy on this host', async () => {
  const before = heard.length;
  assert.equal(await reaches('naming', 'localtest.me', daemonPort), false);
  assert.equal(await refusalOf('naming', 'localtest.me'), 'daemon_address');
  assert.deepEqual(heard.slice(before), []);
});

test('a proxy that is called localhost is one on this host', async () => {
  const before = heard.length;
  assert.equal(await reaches('word', 'www.example.com', 80), true);
  assert.equal(await reaches('word', 'localtest.me', daemonPort), false);
  assert.deepEqual(heard.slice(before), ['www.example.com:80']);
});

test('a silent connection whose rules come to be about requests is awaited and read', async () => {
  const to = 'www.example.com';
  await egress.put('changing', { policy: { allow: [to] }, upstream: 'here' });
  const relay = await egress.launcher.relay((instance += 1), 'changing');
  const program = relay.open(await addressOf(relay, to), 7777);
  await waitFor('it to be looked at', async () => (await egress.stats()).connections.pending === 1);
  await egress.put('changing', { policy: { allow: [{ to, paths: ['/hello'] }] }, upstream: 'here' });
  await pass(limits.silentMs + 250);
  program.write(`GET /other HTTP/1.1\r\nHost: ${to}:7777\r\n\r\n`);
  await program.read('403');
  program.reset();
  const rows = await egress.decisions('sandbox=changing');
  assert.ok(!rows.some(({ rule }) => rule === 'interception_limit'));
});

test('a sandbox whose own secrets, or whose proxy, can not be had reaches nothing, also not as before', async () => {
  const [first, second] = ['www.example.com', 'api.example.com'];
  for (const lost of [{ ownSecrets: ['KEY'], upstream: 'here' }, { upstream: 'gone' }]) {
    await egress.put('losing', { policy: { allow: ['*'] }, upstream: 'here' });
    const relay = await egress.launcher.relay((instance += 1), 'losing');
    const program = relay.open(await addressOf(relay, first), 80);
    program.write('PING\r\n');
    await program.read('PING');
    await assert.rejects(egress.put('losing', { policy: { allow: [second] }, ...lost }), /losing|"gone"/);
    assert.equal(await program.closed(), 3);
    assert.equal(await reaches('losing', second, 80), false);
    assert.equal(await reaches('losing', first, 80), false);
  }
});
