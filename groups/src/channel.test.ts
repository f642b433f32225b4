/** An agent's channel over real connections and a real store: what a client that keeps no rule gets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { type Duplex, PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { groupLimits } from '@squash/contract/group-limits';
import { keptLog } from '../../tests/support/kept-log.ts';
import { testStore } from '../../tests/support/store.ts';
import { waitFor } from '../../tests/support/wait.ts';
import { Acts } from './acts.ts';
import { Channel } from './channel.ts';
import { Intake } from './intake.ts';
import { Registry } from './registry.ts';
import { Schedules } from './schedules.ts';
import { Views } from './views.ts';

const stack = new AsyncDisposableStack();
let open: () => Promise<{ readonly socket: Socket; readonly channel: Channel }>;

before(() => {
  const { store } = stack.use(testStore());
  const rows = store.groups;
  const registry = new Registry(rows);
  const nowMs = Date.now;
  const body = {
    name: 'g',
    tier: 'untrusted',
    command: ['cat'],
    layers: [],
    image: null,
    env: {},
    reach: [],
    secrets: [],
    mounts: [],
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
  const actor = { group: 'g', run: 1, depth: 0 };
  open = async () => {
    const views = new Views(rows, registry, schedules);
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
