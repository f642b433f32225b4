/** An agent's channel over real connections and a real store: what a client that keeps no rule gets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { type Duplex, PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { groupLimits } from '@squash/contract/group-limits';
import { keptLog } from '../../tests/support/kept-log.ts';
import { testStore } from '../../tests/support/store.ts';
import { waitFor } from '../../tests/support/wait.ts';
import { Acts } from './acts.ts';
import { Channel } from './channel.ts';
import { toolNames } from './channel-tools.ts';
import { Intake } from './intake.ts';
import { Registry } from './registry.ts';
import { Schedules } from './schedules.ts';
import { Views } from './views.ts';

const stack = new AsyncDisposableStack();
let open: () => Promise<{ readonly socket: Socket; readonly channel: Channel; readonly port: number }>;

before(() => {
  const { store } = stack.use(testStore());
  const rows = store.groups;
  const registry = new Registry(rows);
  const nowMs = Date.now;
  const body = {
    name: 'g',
    tier: 'untrusted',
    command: ['cat'],
    profile: null,
    layers: [],
    image: null,
    env: {},
    reach: [],
    secrets: [],
    mounts: [],
    cpu: null,
    backend: null,
  };
  registry.createGroup(
    { ...body, timeout_s: 1, idle_timeout_s: 1, output_bytes_max: 1, session_mb: 16 },
    { nowMs: 1, by: null },
  );
  registry.createChat({ name: 'g', group: 'g', trigger: null, senders: '*', others: 'drop' }, { nowMs: 1 });
  const intake = new Intake(rows, registry);
  const schedules = new Schedules(store.schedules, registry);
  const witness = { decided: () => undefined };
  const acts = new Acts({ rows, registry, intake, schedules, nowMs, log: keptLog('warn').log, witness });
  const message = { chat: 'g', text: 'hello', sender: 'ann', depth: 0 };
  store.transaction(() => intake.putStarting(message, nowMs()));
  const run = rows.runsOf('g', 1)[0]?.run ?? 0;
  const actor = { group: 'g', run, depth: 0 };
  open = async () => {
    const views = new Views({ rows, registry, schedules, witness });
    const channel = stack.use(
      new Channel({ actor, acts, views, changed: () => undefined, active: () => undefined }),
    );
    const server = createServer((socket) =>
      channel.isFull ? socket.destroy() : void channel.accept(async () => socket),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stack.defer(() => void server.close());
    const socket = (): Socket => connect((server.address() as AddressInfo).port, '127.0.0.1');
    return {
      get socket() {
        return socket();
      },
      channel,
      port: (server.address() as AddressInfo).port,
    };
  };
});
after(() => stack.disposeAsync());

async function answered(socket: Socket, request: string): Promise<string> {
  socket.on('error', () => undefined).write(request);
  return await text(socket);
}

test('a channel answers a request a connection, and refuses those that come too fast', async () => {
  const scene = await open();
  const asked = groupLimits.requestRate.burst + 100;
  const answers: string[] = [];
  for (let at = 0; at < asked; at += 1)
    answers.push(await answered(scene.socket, 'GET /self HTTP/1.1\r\nHost: c\r\n\r\n'));
  const refused = answers.filter((answer) => answer.startsWith('HTTP/1.1 429 '));
  assert.ok(refused.length > 0);
  assert.match(refused[0] ?? '', /"error":"rate"/);
  assert.ok(answers.every((answer) => / 200 | 429 /.test(answer)));
});

test('a channel takes no second request of a connection', async () => {
  const scene = await open();
  for (const version of ['1.1', '1.0']) {
    const ids = Array.from({ length: 20 }, (_, at) => `piped-${version}-${at}`);
    const requests = ids.map((id) => {
      const body = JSON.stringify({ id, action: 'message.send', chat: 'nobody', text: 'x' });
      return `POST /actions HTTP/${version}\r\nHost: c\r\nConnection: keep-alive\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    });
    await answered(scene.socket, requests.join('')).catch(() => '');
    const found = await Promise.all(
      ids.map((id) => answered(scene.socket, `GET /actions/${id} HTTP/1.1\r\nHost: c\r\n\r\n`)),
    );
    assert.ok(found.filter((answer) => answer.startsWith('HTTP/1.1 200 ')).length <= 1, version);
  }
  const expecting = 'GET /self HTTP/1.1\r\nHost: c\r\nExpect: nothing\r\n\r\n';
  const answers = await answered(scene.socket, expecting.repeat(20)).catch(() => '');
  assert.ok(answers.split('HTTP/1.1 ').length <= 2, answers);
});

test('a channel takes no more than a request’s bytes, and no more connections than a run has', async () => {
  const scene = await open();
  const bytes = groupLimits.requestBytesMax + 1;
  const head = `POST /actions HTTP/1.1\r\nHost: c\r\nContent-Length: ${bytes}\r\n\r\n`;
  assert.match(await answered(scene.socket, `${head}${' '.repeat(bytes)}`), /^HTTP\/1\.1 413 /);
  for (const nonsense of [
    '\0',
    'GET\r\n\r\n',
    `GET /${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`,
    'POST /actions HTTP/1.1\r\nHost: c\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
  ])
    assert.doesNotMatch(await answered(scene.socket, nonsense), / 200 /);
  const idle = Array.from({ length: groupLimits.connectionsMax }, () => scene.socket);
  await Promise.all(idle.map((socket) => once(socket, 'connect')));
  for (const socket of idle) socket.write('POST /actions HTTP/1.1\r\nHost: c\r\n');
  assert.equal(await answered(scene.socket, 'GET /self HTTP/1.1\r\nHost: c\r\n\r\n').catch(() => ''), '');
  for (const socket of idle.splice(1)) socket.destroy();
  await waitFor('a place', () => !scene.channel.isFull);
  assert.match(await answered(scene.socket, 'GET /self HTTP/1.1\r\nHost: c\r\n\r\n'), /^HTTP\/1\.1 200 /);
  scene.channel[Symbol.dispose]();
  await Promise.all(idle.map(async (socket) => socket.closed || (await once(socket.resume(), 'close'))));
});

test('a channel has no place for those that come at once beyond its own, and none when its run is over', async () => {
  const { channel } = await open();
  const taken: Duplex[] = [];
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const coming = Array.from({ length: 2 * groupLimits.connectionsMax }, () =>
    channel.accept(async () => {
      await late;
      const connection = new PassThrough();
      taken.push(connection);
      return connection;
    }),
  );
  channel[Symbol.dispose]();
  resolve();
  await Promise.all(coming);
  assert.equal(taken.length, groupLimits.connectionsMax);
  assert.ok(taken.every(({ destroyed }) => destroyed));
});

test('an MCP client finds a tool for each action and each look, and is judged as every request is', async () => {
  const { port } = await open();
  await using agent = await clientAt(port);
  const { tools } = await agent.client.listTools();
  assert.deepEqual(
    tools.map(({ name }) => name),
    [...toolNames],
  );
  const schedule = tools.find(({ name }) => name === 'schedule_create')?.inputSchema;
  assert.deepEqual(schedule?.required, ['name', 'text']);
  assert.equal((await agent.called('self')).body['chat'], 'g');
  const once = { text: 'said by a tool', id: 'one' };
  assert.equal((await agent.called('message_send', once)).body['state'], 'done');
  assert.equal((await agent.called('message_send', once)).body['state'], 'done');
  const { items } = (await agent.called('messages')).body as { items: { text: string }[] };
  assert.deepEqual(
    items.map(({ text: said }) => said),
    ['said by a tool'],
  );
  assert.equal((await agent.called('action', { id: 'one' })).body['action'], 'message.send');
  const made = await agent.called('group_create', { name: 'mine', tier: 'main' });
  assert.ok(made.isError);
  assert.equal(made.body['state'], 'denied');
  for (const [name, given] of [
    ['message_send', {}],
    ['messages', { chat: '../g' }],
    ['action', { id: 'two' }],
    ['constructor', {}],
  ] as const)
    assert.ok((await agent.called(name, given)).isError, name);
});

test('a request for tools that is none is refused, and keeps nothing', async () => {
  const { port, socket, channel } = await open();
  const head = `POST /mcp HTTP/1.1\r\nHost: c\r\nContent-Type: application/json\r\n`;
  const accepts = 'Accept: application/json, text/event-stream\r\n';
  assert.match(await answered(socket, `${head}${accepts}Content-Length: 1\r\n\r\n{`), /^HTTP\/1\.1 400 /);
  assert.match(
    await answered((await open()).socket, 'GET /mcp HTTP/1.1\r\nHost: c\r\n\r\n'),
    /^HTTP\/1\.1 40[56] /,
  );
  const bytes = groupLimits.requestBytesMax + 1;
  const large = `${head}Content-Length: ${bytes}\r\n\r\n${' '.repeat(bytes)}`;
  assert.match(await answered(connect(port, '127.0.0.1'), large), /^HTTP\/1\.1 413 /);
  await waitFor('all places', () => !channel.isFull);
});

test('a request for tools is one call: many in one would be counted as one', async () => {
  const one = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'self', arguments: {} } };
  const asked = async (message: unknown): Promise<string> => {
    const body = JSON.stringify(message);
    const head = `POST /mcp HTTP/1.1\r\nHost: c\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n`;
    const request = `${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
    return await answered((await open()).socket, request);
  };
  assert.match(await asked(one), /^HTTP\/1\.1 200 /);
  assert.match(await asked([one, { ...one, id: 2 }]), /^HTTP\/1\.1 400 [^]*"invalid_request"/);
});

interface Called {
  readonly isError: boolean;
  readonly body: Readonly<Record<string, unknown>>;
}

async function clientAt(port: number) {
  const client = new Client({ name: 'agent', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`)));
  const called = async (name: string, given: Record<string, unknown> = {}): Promise<Called> => {
    const { content, isError = false } = await client.callTool({ name, arguments: given });
    const [block] = content as { readonly text: string }[];
    return { isError, body: JSON.parse(block?.text ?? '') as Called['body'] };
  };
  return { client, called, [Symbol.asyncDispose]: () => client.close() };
}
