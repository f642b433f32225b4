/**
 * What stays open: event streams, WebSockets, uploads, and the daemon's stop. The point of each is that nobody's
 * slowness or absence fills memory or holds anything.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, readdir } from 'node:fs/promises';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { execEventSchema } from '@squash/contract/exec';
import { limits } from '@squash/contract/limits';
import type { ProcessInfo } from '@squash/contract/process';
import { WebSocket } from 'ws';
import { execRecord, sandboxInfo, thinEngine } from '../../../tests/support/thin-engine.ts';
import { ThinServer } from '../../../tests/support/thin-server.ts';
import { waitFor } from '../../../tests/support/wait.ts';
import type { Engine } from '../engine/engine.ts';
import type { JobLogLine } from '../sandbox/job-log.ts';
import type { ExecSession } from '../sandbox/session.ts';
import { event } from './job-log.ts';

const logs = '/cgi-bin/api/sandboxes/box/jobs/1/logs';

/** True when `count` does not move while the server answers others: nobody waits on a clock. */
async function isStalled(server: ThinServer, count: () => number): Promise<boolean> {
  const before = count();
  for (let round = 0; round < 20; round += 1) await server.send({ path: '/cgi-bin/health' });
  return before > 0 && count() === before;
}

async function* lines(...texts: readonly string[]): AsyncGenerator<JobLogLine, void, void> {
  for (const [index, text] of texts.entries()) yield { number: index + 1, stream: 'stderr', text };
}

test('job logs are numbered events that end with done', async () => {
  const asked: number[] = [];
  await using server = await ThinServer.start(
    thinEngine({
      processes: {
        jobLog: (_id, _job, after) => {
          asked.push(after);
          return lines('one', '', 'a\rb\nc');
        },
      },
    }),
  );
  const answer = await server.send({ path: logs });
  assert.equal(answer.headers['content-type'], 'text/event-stream');
  assert.equal(
    answer.text,
    'id: 1\ndata: one\n\nid: 2\ndata: \n\nid: 3\ndata: a\ndata: b\ndata: c\n\nevent: done\ndata: {"exit_code":5}\n\n',
  );
  await server.send({ path: `${logs}?after=7` });
  await server.send({ path: `${logs}?after=7`, headers: { 'last-event-id': '9' } });
  assert.deepEqual(asked, [0, 7, 9]);
  assert.match(
    (await server.send({ path: `${logs}?streams=true` })).text,
    /^id: 1\nevent: stderr\ndata: one\n/,
  );
  assert.equal((await server.send({ path: logs, headers: { 'last-event-id': 'x' } })).status, 400);
  assert.equal((await server.send({ path: `${logs}?after=-1` })).status, 400);
  assert.equal((await server.send({ path: `${logs}?before=1` })).status, 400);
});

test('event() keeps a hostile line from making events of its own', () => {
  const made = event({ number: 4, stream: 'stdout', text: 'x\n\nevent: done\rdata: {}\r\nid: 9' }, true);
  assert.equal(made, 'id: 4\ndata: x\ndata: \ndata: event: done\ndata: data: {}\ndata: id: 9\n\n');
});

test('a client that stops reading an event stream stalls whoever writes it, and frees it by leaving', async () => {
  let written = 0;
  let isEnded = false;
  async function* endless(): AsyncGenerator<JobLogLine, void, void> {
    try {
      for (;;) {
        written += 1;
        yield { number: written, stream: 'stdout', text: 'x'.repeat(32_768) };
      }
    } finally {
      isEnded = true;
    }
  }
  await using server = await ThinServer.start(thinEngine({ processes: { jobLog: () => endless() } }));
  const response = await server.open({ path: logs });
  response.pause();
  await waitFor('the writer to stall', () => isStalled(server, () => written));
  // What fits into the kernel's socket buffers on both sides, not more.
  assert.ok(written < 1_000, `${written} lines were written to a client that does not read`);
  assert.match((await server.send({ path: '/metrics' })).text, /squash_http_streams_active 1\n/);
  response.destroy();
  await waitFor('the stream to be freed', () => isEnded);
  assert.match((await server.send({ path: '/metrics' })).text, /squash_http_streams_active 0\n/);
});

test('a client that sends requests in a row and reads no answer has one made for it at a time', async () => {
  let made = 0;
  const list = () => {
    made += 1;
    return [{ ...sandboxInfo('box'), task: 'x'.repeat(2_097_152) }];
  };
  await using server = await ThinServer.start(thinEngine({ sandboxes: { list } }));
  const client = connect(server.port, '127.0.0.1').pause();
  client.write('GET /cgi-bin/api/sandboxes HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(limits.unansweredMax));
  await waitFor('no more to be made', () => isStalled(server, () => made));
  assert.ok(made < 16, `${made} answers of 2 MiB were made`);
  client.destroy();
  await waitFor('the rest to be dropped', () => server.service.active === 0);
  assert.ok(made < 16, `${made} answers of 2 MiB were made`);
});

test('the exec log is sent page by page and is one JSON array', async () => {
  const all = Array.from({ length: 40 }, (_, index) => execRecord(index + 1, `echo ${index}`));
  const asked: number[] = [];
  await using server = await ThinServer.start(
    thinEngine({
      processes: {
        logs: (_id, page = { after: 0, limit: 1_000 }) => {
          asked.push(page.limit);
          return all.filter(({ seq }) => seq > page.after).slice(0, page.limit);
        },
      },
    }),
  );
  const path = '/cgi-bin/api/sandboxes/box/logs';
  const answer = await server.send({ path });
  assert.equal(answer.headers['content-type'], 'application/json');
  assert.deepEqual(answer.json, all);
  assert.ok(asked.every((limit) => limit <= 16));
  const some = await server.send({ path: `${path}?after=30&limit=5` });
  assert.deepEqual(some.json, all.slice(30, 35));
  assert.deepEqual((await server.send({ path: `${path}?after=40` })).json, []);
  assert.equal((await server.send({ path: `${path}?limit=0` })).status, 400);
  assert.equal((await server.send({ path: path.replace('box', 'gone') })).status, 404);
});

interface Scripted {
  readonly session: ExecSession;
  readonly stdin: string[];
  readonly calls: string[];
  readonly finish: () => void;
}

/** A session whose command echoes nothing and ends when told to. */
function scripted(output: () => AsyncIterable<Buffer>): Scripted {
  const end = Promise.withResolvers<void>();
  const stdin: string[] = [];
  const calls: string[] = [];
  const session: ExecSession = {
    seq: 7,
    pid: 42,
    async *events() {
      for await (const data of output()) yield { type: 'output', stream: 'stderr', data };
      await end.promise;
      yield { type: 'exit', record: { ...execRecord(7, 'x'), exit_code: 3 }, signal: undefined };
    },
    writeStdin: (chunk) => {
      stdin.push(Buffer.from(chunk).toString());
      return Promise.resolve();
    },
    endStdin: () => void calls.push('eof'),
    resize: (rows, columns) => void calls.push(`resize ${rows}x${columns}`),
    signal: (signo) => void calls.push(`signal ${signo}`),
    abandon: () => {
      calls.push('abandon');
      end.resolve();
    },
  };
  return { session, stdin, calls, finish: () => end.resolve() };
}

async function* some(...chunks: readonly string[]): AsyncGenerator<Buffer, void, void> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

function streamEngine(session: ExecSession): Engine {
  return thinEngine({ processes: { stream: () => Promise.resolve(session) } });
}

function openStream(
  server: ThinServer,
  path = '/v1/sandboxes/box/exec',
  protocol = 'squash.exec.v1',
): WebSocket {
  return new WebSocket(`ws://127.0.0.1:${server.port}${path}`, protocol);
}

test('exec stream carries start, input, control, output and exit', async () => {
  const { session, stdin, calls, finish } = scripted(() => some('out'));
  await using server = await ThinServer.start(streamEngine(session));
  const socket = openStream(server);
  const seen: string[] = [];
  socket.on('open', () => socket.send(JSON.stringify({ type: 'start', argv: ['x'], stdin: true })));
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) {
      seen.push(`${data[0]}:${data.subarray(1).toString()}`);
      return;
    }
    const told = execEventSchema.parse(JSON.parse(data.toString()));
    seen.push(told.type);
    if (told.type !== 'started') return;
    socket.send(Buffer.from('hello'));
    socket.send('{"type":"resize","rows":10,"columns":20}');
    socket.send('{"type":"signal","signal":2}');
    socket.send('{"type":"stdin_eof"}');
  });
  await waitFor('the input to arrive', () => calls.includes('eof'));
  finish();
  const [code] = (await once(socket, 'close')) as [number];
  assert.equal(code, 1000);
  assert.deepEqual(seen, ['started', '2:out', 'exit']);
  assert.deepEqual(stdin, ['hello']);
  assert.deepEqual(calls, ['resize 10x20', 'signal 2', 'eof']);
});

const processInfo: ProcessInfo = {
  process: 1,
  tag: null,
  kind: 'process',
  state: 'running',
  pid: 2,
  argv: ['cat'],
  command: 'cat',
  cwd: '/',
  user: null,
  pty: false,
  stdin: 'open',
  timeout_ms: null,
  started_at: '2026-01-01T00:00:00.000Z',
  finished_at: null,
  duration_ms: null,
  exit_code: null,
  signal: null,
  timed_out: false,
  reason: null,
  stdout_bytes: 0,
  stderr_bytes: 0,
};

/** Until the client has gone. */
// oxlint-disable-next-line require-yield
async function* noOutput(signal: AbortSignal): AsyncGenerator<never, void, void> {
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

test('a client that is attached when the id goes to another owner puts nothing into his process', async () => {
  let owner = 'one';
  const taken: string[] = [];
  const held = { id: 'key_0', name: 'x', owner: 'one', scope: 'exec', expiresMs: null } as const;
  const take = (what: string) => {
    taken.push(what);
    return Promise.resolve();
  };
  await using server = await ThinServer.start(
    thinEngine({
      keys: { count: 1, find: () => held, holds: () => true },
      sandboxes: { ownerOf: () => owner },
      processes: {
        get: () => processInfo,
        output: (...[, , , signal]) => noOutput(signal),
        write: async () => await take('input').then(() => 1),
        resize: () => take('size'),
        signal: () => take('signal'),
      },
    }),
  );
  const url = `ws://127.0.0.1:${server.port}/v1/sandboxes/box/processes/1/attach`;
  const headers = { authorization: 'Bearer sqk_0' };
  const attach = async (): Promise<WebSocket> => {
    const socket = new WebSocket(url, 'squash.process.v1', { headers });
    await once(socket, 'message');
    return socket;
  };
  const first = await attach();
  first.send(Buffer.from('mine'));
  await waitFor('the input', () => taken.length === 1);
  first.terminate();
  for (const message of [
    Buffer.from('planted'),
    '{"type":"stdin_eof"}',
    '{"type":"signal","signal":9}',
    '{"type":"resize","rows":1,"columns":1}',
  ]) {
    owner = 'one';
    const socket = await attach();
    let told = '';
    socket.on('message', (data: Buffer) => (told += data.toString()));
    owner = 'two';
    socket.send(message);
    await waitFor('its end', () => taken.length > 1 || socket.readyState === WebSocket.CLOSED);
    assert.deepEqual(taken, ['input']);
    assert.match(told, /"code":"sandbox_not_found"/);
  }
});

test('exec stream tells what is wrong with a message and lets the command go', async () => {
  const table: readonly [readonly (string | Buffer)[], string][] = [
    [['{'], 'invalid_json'],
    [[Buffer.from('x')], 'invalid_request'],
    [['{"type":"start"}'], 'invalid_request'],
    [['{"type":"start","argv":[]}'], 'invalid_request'],
    [['{"type":"start","argv":["x"],"shell":true}'], 'invalid_request'],
    [['{"type":"start","argv":["x"]}', Buffer.from('stdin')], 'invalid_request'],
    [['{"type":"start","argv":["x"]}', '{"type":"explode"}'], 'invalid_request'],
    [['{"type":"start","argv":["x"]}', '{"type":"signal","signal":0}'], 'invalid_request'],
  ];
  for (const [messages, code] of table) {
    const { session, calls } = scripted(() => some());
    await using server = await ThinServer.start(streamEngine(session));
    const socket = openStream(server);
    const errors: string[] = [];
    socket.on('open', () => {
      for (const message of messages) socket.send(message);
    });
    socket.on('message', (data: Buffer) => {
      const told = execEventSchema.parse(JSON.parse(data.toString()));
      if (told.type === 'error') errors.push(told.code);
    });
    await once(socket, 'close');
    assert.deepEqual(errors, [code], String(messages));
    assert.deepEqual(calls, messages.length > 1 ? ['abandon'] : [], String(messages));
  }
});

test('a client that is still sending when its stream ends is closed in order', async () => {
  await using server = await ThinServer.start(thinEngine());
  const socket = openStream(server);
  await once(socket, 'open');
  for (let index = 0; index < 10; index += 1) socket.send('x'.repeat(200_000));
  const [code] = (await once(socket, 'close')) as [number];
  assert.equal(code, 1000);
});

test('a client that stops reading an exec stream stalls the command; one that leaves abandons it', async () => {
  let produced = 0;
  async function* endless(): AsyncGenerator<Buffer, void, void> {
    for (;;) {
      produced += 1;
      yield Buffer.alloc(32_768);
    }
  }
  const { session, calls } = scripted(endless);
  await using server = await ThinServer.start(streamEngine(session));
  const socket = openStream(server);
  await once(socket, 'open');
  socket.pause();
  socket.send(JSON.stringify({ type: 'start', argv: ['yes'] }));
  await waitFor('the command to stall', () => isStalled(server, () => produced));
  assert.ok(produced < 1_000, `${produced} chunks were taken for a client that does not read`);
  socket.terminate();
  await waitFor('the command to be abandoned', () => calls.includes('abandon'));
});

test('a command that does not read its input stalls the client', async () => {
  const taken: number[] = [];
  const { session } = scripted(() => some());
  const stalled: ExecSession = {
    ...session,
    events: () => session.events(),
    writeStdin: (chunk) => {
      taken.push(chunk.length);
      return new Promise(() => {});
    },
  };
  await using server = await ThinServer.start(streamEngine(stalled));
  const socket = openStream(server);
  await once(socket, 'open');
  socket.send(JSON.stringify({ type: 'start', argv: ['sleep'], stdin: true }));
  for (let index = 0; index < 600; index += 1) socket.send(Buffer.alloc(65_536));
  await waitFor('the client to be stalled', () => isStalled(server, () => socket.bufferedAmount));
  assert.equal(taken.length, 1);
  assert.ok(socket.bufferedAmount > 16 * 1_048_576, `${socket.bufferedAmount} of 39 MB wait at the client`);
  socket.terminate();
});

test('WebSockets are refused by status: no token, foreign page, wrong address, wrong protocol', async () => {
  await using server = await ThinServer.start(streamEngine(scripted(() => some()).session));
  const refused = async (socket: WebSocket): Promise<number> => {
    const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number }];
    socket.on('error', () => undefined);
    socket.terminate();
    return response.statusCode;
  };
  const url = `ws://127.0.0.1:${server.port}/v1/sandboxes/box/exec`;
  assert.equal(await refused(openStream(server, '/v1/sandboxes/gone/exec')), 404);
  assert.equal(await refused(openStream(server, '/v1/nowhere')), 404);
  assert.equal(await refused(openStream(server, '/v1/sandboxes/box/exec', 'other')), 400);
  assert.equal(await refused(new WebSocket(url, 'squash.exec.v1', { origin: 'http://evil.test' })), 403);
  assert.equal(await refused(new WebSocket(url, 'squash.exec.v1', { headers: { host: 'evil.test' } })), 403);
  const told = { origin: 'http://evil.test' };
  assert.equal(
    await refused(new WebSocket(`${url}?key=sqk_${'0'.repeat(40)}`, 'squash.errors.v1', told)),
    403,
  );
});

test('a handshake that is none is answered, also where the refusal would come by a message', async () => {
  await using server = await ThinServer.start(streamEngine(scripted(() => some()).session));
  const key = 'AAAAAAAAAAAAAAAAAAAAAA==';
  const wrong: readonly Readonly<Record<string, string>>[] = [
    { 'sec-websocket-key': 'x' },
    { 'sec-websocket-version': '12' },
    { 'sec-websocket-protocol': 'squash.exec.v1, squash.exec.v1' },
    { 'sec-websocket-protocol': 'squash.errors.v1', 'sec-websocket-version': '12' },
  ];
  for (const headers of wrong) {
    const { status, json } = await server.send({
      path: '/v1/sandboxes/box/exec',
      headers: {
        connection: 'upgrade',
        upgrade: 'websocket',
        'sec-websocket-key': key,
        'sec-websocket-version': '13',
        'sec-websocket-protocol': 'squash.exec.v1',
        ...headers,
      },
    });
    assert.equal(status, 400, JSON.stringify(headers));
    assert.match(JSON.stringify(json), /"code":"invalid_request"/);
  }
  const posted = { method: 'POST', path: '/cgi-bin/api/sandboxes/box/exec' };
  const asked = { connection: 'upgrade', upgrade: 'websocket' };
  assert.equal((await server.send({ ...posted, headers: asked }, '{"cmd":"true"}')).status, 200);
});

test('a module’s upload is streamed to a file, and one that ends early leaves none', async () => {
  const got: Buffer[] = [];
  await using server = await ThinServer.start(
    thinEngine({
      modules: {
        import: async (path, name) => {
          got.push(await readFile(path));
          return { name, size: 3_000_000, location: 'local' };
        },
      },
    }),
  );
  const put = { method: 'PUT', path: '/v1/modules/100-x', headers: { expect: '100-continue' } };
  const file = Buffer.alloc(3_000_000, 7);
  const sent = request({ ...put, host: '127.0.0.1', port: server.port, agent: false });
  sent.once('continue', () => sent.end(file));
  sent.flushHeaders();
  const [response] = (await once(sent, 'response')) as [{ statusCode: number; resume: () => void }];
  response.resume();
  assert.equal(response.statusCode, 200);
  assert.ok(got[0]?.equals(file));
  assert.equal((await server.send({ method: 'PUT', path: '/v1/modules/100-x' })).status, 400);
  assert.equal((await server.send({ method: 'PUT', path: '/v1/modules/.x' }, 'x')).status, 400);
  const broken = request({ ...put, host: '127.0.0.1', port: server.port, agent: false });
  broken.on('error', () => undefined);
  broken.once('continue', () => broken.write('half', () => broken.destroy()));
  broken.flushHeaders();
  await new Promise((resolve) => broken.once('close', resolve));
  await waitFor(
    'the file to be removed',
    async () => (await readdir(join(server.directory, 'tmp'))).length === 0,
  );
  assert.equal(got.length, 1);
});

test('close() finishes requests in progress, ends followers, and takes nothing new', async () => {
  const running = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  async function* follow(signal: AbortSignal): AsyncGenerator<JobLogLine, void, void> {
    yield { number: 1, stream: 'stdout', text: 'first' };
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  }
  await using server = await ThinServer.start(
    thinEngine({
      processes: {
        exec: async () => {
          running.resolve();
          await finish.promise;
          return execRecord(1, 'slow');
        },
        jobLog: (...[, , , signal]) => follow(signal),
      },
      sandboxes: { get: (id) => sandboxInfo(id) },
    }),
  );
  const exec = server.send(
    { method: 'POST', path: '/cgi-bin/api/sandboxes/box/exec', headers: { connection: 'keep-alive' } },
    '{"cmd":"slow"}',
  );
  const following = await server.open({ path: logs });
  await running.promise;
  const closing = server.service.close();
  assert.equal(await text(following), 'id: 1\ndata: first\n\n');
  await assert.rejects(server.send({ path: '/cgi-bin/health' }), { code: 'ECONNREFUSED' });
  finish.resolve();
  const answer = await exec;
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.connection, 'close');
  await closing;
});
