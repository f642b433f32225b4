/**
 * A bounded fuzz run against a real daemon: whatever is sent, the answer is one the contract documents, the daemon
 * lives, logs no fault, and holds the same sandboxes and modules as before.
 *
 * `FUZZ_RUNS` sets the number of requests per test, `FUZZ_SEED` repeats a run; a failure prints both.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { WebSocket } from 'ws';
import fc from 'fast-check';
import { ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const runs = Number(process.env['FUZZ_RUNS'] ?? 300);
const seed = process.env['FUZZ_SEED'];
const parameters = {
  numRuns: runs,
  endOnFailure: true,
  ...(seed === undefined ? {} : { seed: Number(seed) }),
};

let daemon: TestDaemon;
let api: ApiClient;
let before_: unknown;

before(async () => {
  daemon = await TestDaemon.start();
  api = new ApiClient(daemon);
  await api.post('/cgi-bin/api/sandboxes', { id: 'box', layers: '000-base-test' });
  before_ = await state();
});

after(async () => {
  try {
    assert.deepEqual(await state(), before_, 'a malformed request changed something');
    assert.doesNotMatch(daemon.output, /"request\.fault"|"upgrade\.fault"|unhandled|uncaught/i);
  } finally {
    await daemon[Symbol.asyncDispose]();
  }
});

async function state(): Promise<unknown> {
  const sandboxes = (await api.get('/cgi-bin/api/sandboxes')).json as Record<string, unknown>[];
  const modules = (await api.get('/cgi-bin/api/modules')).json as unknown;
  // The exec stream's test runs commands.
  const still = sandboxes.map(({ upper_bytes: _1, last_active: _2, exec_count: _3, ...rest }) => rest);
  return { sandboxes: still, modules };
}

const text = fc.string({ unit: 'binary', maxLength: 60 });
const name = fc.oneof(
  fc.constantFrom(
    'gone',
    '..',
    '.',
    '%2e%2e',
    '%00',
    '%ff',
    'a%2Fb',
    '-',
    'x'.repeat(300),
    '%zz',
    '*',
    '{id}',
  ),
  text.map((value) => encodeURIComponent(value.toWellFormed()) || 'y'),
);
const method = fc.constantFrom(
  'GET',
  'POST',
  'PUT',
  'DELETE',
  'PATCH',
  'OPTIONS',
  'HEAD',
  'TRACE',
  'PROPFIND',
);
const action = fc.constantFrom(
  'exec',
  'exec-bg',
  'jobs',
  'jobs/0',
  'jobs/1',
  'jobs/-1',
  'jobs/1e3/logs',
  'activate',
  'snapshot',
  'restore',
  'logs',
  'fork',
  'gui/status',
  'novnc/a/b',
  'explode',
);
/** Never a path that a well-formed body could change `box` or a module through. */
const path = fc.oneof(
  fc.tuple(name, action).map(([id, what]) => `/cgi-bin/api/sandboxes/${id}/${what}`),
  name.map((id) => `/cgi-bin/api/sandboxes/${id}`),
  name.map((id) => `/v1/modules/${id}x-gone`),
  name.map((id) => `/v1/sandboxes/${id}/exec`),
  name.map((id) => `/v1/sandboxes/${id}/snapshots`),
  name.map((label) => `/v1/sandboxes/box/snapshots/${label}`),
  name.map((label) => `/v1/sandboxes/box/snapshots/${label}/file`),
  name.map((rest) => `/${rest}`),
  fc.constantFrom(
    '/cgi-bin/api/sandboxes',
    '/cgi-bin/api/modules',
    '/cgi-bin/health',
    '/cgi-bin/',
    '/v1',
    '//',
    '/metrics',
  ),
);
const query = fc.oneof(
  fc.constant(''),
  fc.constantFrom(
    '?after=-1',
    '?after=1e9',
    '?limit=0',
    '?limit=x',
    '?format=',
    '?replace=maybe',
    '?&&=&',
    '?after=1&after=2',
  ),
  text.map((value) => `?${encodeURIComponent(value.toWellFormed())}`),
);
const headers = fc.dictionary(
  fc.constantFrom(
    'content-type',
    'accept',
    'origin',
    'host',
    'last-event-id',
    'expect',
    'range',
    'cookie',
    'authorization',
    'x-forwarded-host',
    'sec-fetch-site',
    'x-http-method-override',
  ),
  fc.oneof(
    fc.constantFrom(
      'application/json',
      'text/plain',
      '*',
      'localhost',
      'http://localhost',
      '100-continue',
      '-1',
      'DELETE',
    ),
    fc.stringMatching(/^[\x20-\x7e]{0,40}$/),
  ),
  { maxKeys: 4 },
);
/** A create that is whole in itself names a module that does not exist. */
const body = fc.oneof(
  fc.constant(''),
  fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.stringify(value)),
  fc
    .record(
      {
        id: fc.oneof(fc.jsonValue(), fc.constantFrom('box', 'new', '../x')),
        layers: fc.oneof(fc.constant('999-gone'), fc.constant(['999-gone', 'x/../y']), fc.integer()),
        cmd: fc.oneof(fc.jsonValue(), text),
        workdir: text,
        timeout: fc.jsonValue(),
        module: fc.oneof(fc.jsonValue(), text),
        label: fc.oneof(fc.jsonValue(), text),
        cpu: fc.jsonValue(),
      },
      { requiredKeys: ['layers'] },
    )
    .map((value) => JSON.stringify(value)),
  text.map((value) => `{"id":"${value}`),
  fc.constantFrom(
    '{"id":1e999,"layers":"999-gone"}',
    '['.repeat(5_000),
    '{"a":'.repeat(5_000),
    '\ufeff{}',
    '{"__proto__":{"id":"x"},"layers":"999-gone"}',
  ),
);

test('well-formed HTTP with any content is answered as documented', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(method, path, query),
      headers,
      body,
      async ([verb, where, what], extra, sent) => {
        const bodiless = verb === 'GET' || verb === 'HEAD' || verb === 'TRACE';
        await api.send(verb, where + what, { headers: extra, ...(bodiless ? {} : { text: sent }) });
      },
    ),
    {
      ...parameters,
      examples: [
        [['GET', '/cgi-bin/api/sandboxes/%03%0A', ''], {}, ''],
        // zod can't compare it: contract/src/safe-parse.ts.
        [['POST', '/cgi-bin/api/sandboxes', ''], {}, '{"id":{"length":{"toString":false}}}'],
        [
          ['POST', '/cgi-bin/api/sandboxes', ''],
          {},
          `{"id":{"length":{"toString":false}},"layers":${'['.repeat(9_000)}${']'.repeat(9_000)}}`,
        ],
      ],
    },
  );
});

/** Sends bytes, closes the sending half, returns whatever comes back until the server closes. */
async function raw(bytes: string | Buffer): Promise<string> {
  const socket = connect(daemon.port, '127.0.0.1');
  let answer = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => (answer += chunk));
  socket.on('error', () => undefined);
  socket.end(bytes);
  if (!socket.closed) await once(socket, 'close').catch(() => undefined);
  return answer;
}

const headLine = fc.oneof(
  fc.constantFrom(
    'host: localhost',
    'content-length: 5',
    'content-length: 99999999999999999999',
    'content-length: -1',
    'content-length: 1048577',
    'transfer-encoding: chunked',
    'transfer-encoding: gzip, chunked',
    'connection: upgrade',
    'upgrade: websocket',
    'upgrade: h2c',
    'sec-websocket-version: 13',
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
    'sec-websocket-protocol: squash.exec.v1',
    'expect: 100-continue',
    'expect: nonsense',
    ' folded: x',
    'no colon',
    `long: ${'x'.repeat(20_000)}`,
  ),
  fc.string({ unit: 'binary', maxLength: 40 }),
);
const startLine = fc.oneof(
  fc.constantFrom(
    'POST /cgi-bin/api/sandboxes HTTP/1.1',
    'POST /cgi-bin/api/sandboxes/box/exec HTTP/1.1',
    'PUT /v1/modules/300-fuzz HTTP/1.1',
    'GET /v1/sandboxes/box/exec HTTP/1.1',
    'GET /cgi-bin/health HTTP/9.9',
    'GET http://evil.test/ HTTP/1.1',
    'OPTIONS * HTTP/1.1',
    'CONNECT localhost:1 HTTP/1.1',
    'PRI * HTTP/2.0',
    'GET /cgi-bin/../../etc/passwd HTTP/1.1',
    'GET /\\..\\x HTTP/1.1',
  ),
  fc.string({ unit: 'binary', maxLength: 60 }),
);
const payload = fc.oneof(
  fc.constantFrom(
    '',
    '5\r\nhello\r\n0\r\n\r\n',
    'fffffffffffffffff\r\n',
    '5;ext=\r\nhel',
    '{"id',
    '0\r\n\r\nGET / HTTP/1.1\r\n\r\n',
  ),
  fc.string({ unit: 'binary', maxLength: 100 }),
);

test('bytes that are nearly HTTP get a documented status or lose their connection', async () => {
  await fc.assert(
    fc.asyncProperty(startLine, fc.array(headLine, { maxLength: 6 }), payload, async (line, lines, rest) => {
      const answer = await raw(`${line}\r\n${lines.map((each) => `${each}\r\n`).join('')}\r\n${rest}`);
      if (answer === '') return;
      const [, status = ''] =
        /^HTTP\/1\.1 (\d{3}) /.exec(answer.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, '')) ?? [];
      const documented = [101, 200, 400, 401, 403, 404, 405, 408, 413, 415, 426, 431, 501];
      assert.ok(
        documented.includes(Number(status)),
        `${JSON.stringify(line)} answered ${answer.slice(0, 200)}`,
      );
    }),
    parameters,
  );
});

test('messages that are no protocol end an exec stream, and no command is left behind', async () => {
  const message = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
    fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)),
    fc.constantFrom<string | Buffer>(
      '{"type":"start","argv":["sleep","7777"]}',
      '{"type":"start","argv":["sleep","7777"],"tty":{"rows":0,"columns":0}}',
      '{"type":"start","argv":["a\\u0000b"]}',
      '{"type":"start","argv":["sleep","7777"],"env":{"A=B":"x"}}',
      '{"type":"start","argv":["sleep","7777"],"env":{"A":"x\\u0000y"}}',
      '{"type":"start","argv":["sleep","7777"],"cwd":"relative"}',
      `{"type":"start","argv":["true","${'x'.repeat(100_000)}"]}`,
      `{"type":"start","argv":["true","${'x'.repeat(229_000)}"]}`,
      `{"type":"start","argv":["true","${'x'.repeat(240_000)}"]}`,
      `{"type":"start","argv":["true"${',"y"'.repeat(4_000)}]}`,
      '{"type":"start","argv":[""]}',
      '{"type":"start","argv":["true"],"cwd":"/gone"}',
      '{"type":"start","argv":["true"],"user":65535}',
      '{"type":"stdin_eof"}',
      '{"type":"signal","signal":-1}',
      '{"type":"resize","rows":1e9,"columns":1}',
      Buffer.alloc(70_000),
    ),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(message, { minLength: 1, maxLength: 5 }),
      fc.boolean(),
      async (messages, isRude) => {
        const socket = new WebSocket(`ws://127.0.0.1:${daemon.port}/v1/sandboxes/box/exec`, 'squash.exec.v1');
        const closed = once(socket, 'close');
        socket.on('error', () => undefined);
        await once(socket, 'open');
        for (const each of messages) socket.send(each);
        if (isRude) socket.terminate();
        else socket.close();
        await closed;
      },
    ),
    { ...parameters, numRuns: Math.ceil(runs / 10) },
  );
  const cmd = "ps -o args | grep -c '[s]leep 7777'";
  await waitFor('the abandoned commands to end', async () => {
    const { json } = await api.post('/cgi-bin/api/sandboxes/box/exec', { cmd });
    return json.stdout.trim() === '0';
  });
});
