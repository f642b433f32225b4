/**
 * What happens when a time is up, with a clock that the test turns: slow bodies, silent streams, a start message
 * that does not come, and the end of the daemon's patience when it stops.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { mock, test } from 'node:test';
import { limits } from '@squash/contract/limits';
import { WebSocket } from 'ws';
import { thinEngine } from '../../../tests/support/thin-engine.ts';
import { ThinServer } from '../../../tests/support/thin-server.ts';
import type { JobLogLine } from '../sandbox/job-log.ts';
import type { ExecSession } from '../sandbox/session.ts';

/** `setTimeout` stands still until `pass` is called; sockets go on as ever. */
function clock(): { pass: (ms: number) => void } & Disposable {
  mock.timers.enable({ apis: ['setTimeout'] });
  return { pass: (ms) => mock.timers.tick(ms), [Symbol.dispose]: () => mock.timers.reset() };
}

/** Lets sockets and promises work until the condition holds; the turned clock can't be waited on. */
async function until(holds: () => boolean): Promise<void> {
  const endMs = performance.now() + 10_000;
  while (!holds()) {
    assert.ok(performance.now() < endMs, 'it did not come');
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('a JSON body that trickles is 408, and its connection ends', async () => {
  await using server = await ThinServer.start(thinEngine());
  using time = clock();
  const socket = connect(server.port, '127.0.0.1');
  let answer = '';
  socket.setEncoding('utf8').on('data', (text: string) => (answer += text));
  socket.write('POST /cgi-bin/api/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20\r\n\r\n{"id":');
  await until(() => server.service.active === 1);
  await until(() => {
    time.pass(limits.jsonBodyMs);
    return answer !== '';
  });
  assert.match(answer, /^HTTP\/1\.1 408 /);
  assert.match(answer, /"code":"request_timeout"/);
  socket.destroy();
  await once(socket, 'close');
});

test('an upload that goes silent is 408', async () => {
  await using server = await ThinServer.start(thinEngine());
  using time = clock();
  const socket = connect(server.port, '127.0.0.1');
  let answer = '';
  socket.setEncoding('utf8').on('data', (text: string) => (answer += text));
  socket.write('PUT /v1/modules/100-x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20\r\n\r\nhsqs');
  await until(() => server.service.active === 1);
  await until(() => {
    time.pass(limits.uploadIdleMs);
    return answer !== '';
  });
  assert.match(answer, /^HTTP\/1\.1 408 /);
  socket.destroy();
  await once(socket, 'close');
});

test('a silent event stream carries comments', async () => {
  async function* silent(signal: AbortSignal): AsyncGenerator<JobLogLine, void, void> {
    yield { number: 1, stream: 'stdout', text: 'one' };
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  }
  await using server = await ThinServer.start(
    thinEngine({ processes: { jobLog: (...[, , , signal]) => silent(signal) } }),
  );
  using time = clock();
  const response = await server.open({ path: '/cgi-bin/api/sandboxes/box/jobs/1/logs' });
  let text = '';
  response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  await until(() => text.includes('one'));
  await until(() => {
    time.pass(limits.eventKeepAliveMs);
    return text.split(': keep-alive\n\n').length > 2;
  });
  response.destroy();
});

test('a WebSocket whose start message does not come is closed', async () => {
  await using server = await ThinServer.start(thinEngine());
  using time = clock();
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/v1/sandboxes/box/exec`, 'squash.exec.v1');
  await once(socket, 'open');
  let code = 0;
  socket.on('close', (closeCode: number) => (code = closeCode));
  await until(() => {
    time.pass(limits.webSocketStartMs);
    return code !== 0;
  });
  assert.equal(code, 1008);
});

test('close() tells streams of commands that go on, abandons none, and cuts what is left', async () => {
  let isAbandoned = false;
  const session: ExecSession = {
    seq: 1,
    pid: 2,
    // oxlint-disable-next-line require-yield
    async *events() {
      await new Promise(() => {});
    },
    writeStdin: () => Promise.resolve(),
    endStdin: () => {},
    resize: () => {},
    signal: () => {},
    abandon: () => {
      isAbandoned = true;
    },
  };
  const engine = thinEngine({
    processes: {
      stream: () => Promise.resolve(session),
      exec: () => new Promise<never>(() => {}),
    },
  });
  await using server = await ThinServer.start(engine);
  using time = clock();
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/v1/sandboxes/box/exec`, 'squash.exec.v1');
  const told: { type: string; code?: string }[] = [];
  socket.on('message', (data: Buffer) => told.push(JSON.parse(data.toString()) as { type: string }));
  const closed = once(socket, 'close') as Promise<[number]>;
  await once(socket, 'open');
  socket.send('{"type":"start","argv":["sleep"]}');
  await until(() => told.length === 1);
  const stuck = server.send({ method: 'POST', path: '/cgi-bin/api/sandboxes/box/exec' }, '{"cmd":"sleep"}');
  const isCut = assert.rejects(stuck, { code: 'ECONNRESET' });
  await until(() => server.service.active === 2);
  let isClosed = false;
  void server.service.close().then(() => (isClosed = true));
  await until(() => {
    time.pass(limits.shutdownMs / 10);
    return told.length === 2;
  });
  assert.equal(told[1]?.code, 'shutting_down');
  const [code] = await closed;
  assert.equal(code, 1012);
  await until(() => {
    time.pass(500);
    return isClosed;
  });
  await isCut;
  assert.equal(isAbandoned, false);
});

test('HEAD of a stream opens none', async () => {
  await using server = await ThinServer.start(thinEngine());
  for (const path of ['/cgi-bin/api/sandboxes/box/logs', '/cgi-bin/api/sandboxes/box/jobs/1/logs']) {
    assert.equal((await server.send({ method: 'HEAD', path })).status, 200);
  }
  assert.match((await server.send({ path: '/metrics' })).text, /squash_http_streams_active 0\n/);
});
