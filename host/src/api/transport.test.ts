/**
 * Requests over real sockets to the HTTP layer with a thin engine: what is refused before any operation, how
 * bodies are read, and that nothing but the documented status ever comes back.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { ExecRecord, JobInfo } from '@squash/contract/exec';
import { limits } from '@squash/contract/limits';
import { notOffered } from '@squash/contract/operations/table';
import { execRecord, jobInfo, thinEngine } from '../../../tests/support/thin-engine.ts';
import { overJsonLimit, ThinServer } from '../../../tests/support/thin-server.ts';
import { Secret } from '@squash/base/secret';
import { waitFor } from '../../../tests/support/wait.ts';
import type { Engine } from '../engine/engine.ts';
import type { JobLogLine } from '../sandbox/job-log.ts';

const create = { method: 'POST', path: '/cgi-bin/api/sandboxes' };
const exec = { method: 'POST', path: '/cgi-bin/api/sandboxes/box/exec' };
const json = { 'content-type': 'application/json' };

test('API asks for the token over TCP, not on the socket, not at health', async () => {
  await using server = await ThinServer.start(thinEngine(), { authToken: new Secret('s3cret') });
  const path = '/cgi-bin/api/sandboxes';
  const refused = await server.send({ path });
  assert.equal(refused.status, 401);
  assert.deepEqual(refused.json, { error: 'unauthorized', code: 'unauthorized' });
  assert.equal(refused.headers['www-authenticate'], 'Bearer');
  assert.equal((await server.send({ path: '/v1/info' })).headers['content-type'], 'application/problem+json');
  assert.equal((await server.send({ path: '/nowhere' })).status, 401);
  assert.equal((await server.send({ path, headers: { authorization: 'Bearer s3cret' } })).status, 200);
  assert.equal((await server.send({ path, socketPath: server.service.socketPath })).status, 200);
  assert.equal((await server.send({ path: '/cgi-bin/health' })).status, 200);
  assert.equal((await server.send({ path: '/cgi-bin/health', method: 'POST' })).status, 200);
});

test('API refuses foreign pages and hosts, and allows no page to read', async () => {
  await using server = await ThinServer.start(thinEngine());
  const path = '/cgi-bin/health';
  assert.equal((await server.send({ path, headers: { host: 'evil.test' } })).status, 403);
  const page = await server.send({ path, headers: { origin: 'http://evil.test' } });
  assert.equal(page.status, 403);
  assert.equal(page.headers['access-control-allow-origin'], undefined);
  const preflight = await server.send({
    ...create,
    method: 'OPTIONS',
    headers: { origin: 'http://evil.test', 'access-control-request-method': 'POST' },
  });
  assert.equal(preflight.status, 403);
});

test('API takes JSON with no type and with the form type, as curl -d sends it', async () => {
  await using server = await ThinServer.start(thinEngine());
  const body = '{"id":"dev"}';
  const types: Readonly<Record<string, number>> = {
    '': 201,
    'application/json': 201,
    'application/json; charset=utf-8': 201,
    'APPLICATION/JSON': 201,
    'application/vnd.x+json': 201,
    'application/x-www-form-urlencoded': 201,
    'multipart/form-data; boundary=x': 415,
    'text/plain': 415,
    'text/json': 415,
    'application/xml': 415,
    'application/octet-stream': 415,
  };
  for (const [type, status] of Object.entries(types)) {
    const headers = type === '' ? {} : { 'content-type': type };
    assert.equal((await server.send({ ...create, headers }, body)).status, status, type);
  }
  await using strict = await ThinServer.start(thinEngine(), { isStrictContentType: true });
  for (const type of ['', 'application/x-www-form-urlencoded', 'application/jsonp', 'text/plain']) {
    const headers = type === '' ? {} : { 'content-type': type };
    const answer = await strict.send({ ...create, headers }, body);
    assert.equal(answer.status, 415, type);
    assert.deepEqual(answer.json, {
      error: 'expected Content-Type: application/json',
      code: 'unsupported_media_type',
    });
  }
  assert.equal((await strict.send({ ...create, headers: json }, body)).status, 201);
});

test('API answers 413 to a JSON body over the limit, announced or chunked', async () => {
  await using server = await ThinServer.start(thinEngine());
  const big = Buffer.alloc(overJsonLimit, ' ');
  const announced = await server.send({ ...exec, headers: json }, big);
  assert.equal(announced.status, 413);
  assert.deepEqual(announced.json, { error: 'request body too large', code: 'body_too_large' });
  const chunked = await server.send({ ...exec, headers: { ...json, 'transfer-encoding': 'chunked' } }, big);
  assert.equal(chunked.status, 413);
  const fits = Buffer.alloc(limits.jsonBodyBytesMax, ' ');
  fits.write('{"cmd":"true"}');
  assert.equal((await server.send({ ...exec, headers: json }, fits)).status, 200);
});

test('API answers what is wrong with a body, in the original’s words', async () => {
  await using server = await ThinServer.start(thinEngine());
  const table: readonly [{ method: string; path: string }, string | Buffer, string][] = [
    [create, '', 'id required'],
    [create, '{', 'invalid JSON body'],
    [create, Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'invalid JSON body'],
    [create, '[]', 'the body must be a JSON object'],
    [create, 'null', 'the body must be a JSON object'],
    [create, '"x"', 'the body must be a JSON object'],
    [create, '{"id":""}', 'id required'],
    [create, '{"id":null}', 'id required'],
    [create, '{"id":5}', 'id must be a string'],
    [create, '{"id":"a/b"}', 'id: alphanumeric/dash/underscore only'],
    [create, '{"id":"../x"}', 'id: alphanumeric/dash/underscore only'],
    [create, '{"id":"a\\n"}', 'id: alphanumeric/dash/underscore only'],
    [create, `{"id":"${'a'.repeat(65)}"}`, 'id: 64 characters at most'],
    [create, '{"id":"d","layers":5}', 'layers must be a comma-separated string or JSON array'],
    [create, '{"id":"d","layers":[5]}', 'layers must be a comma-separated string or JSON array'],
    [create, '{"id":"d","layers":"../x"}', 'invalid layer name: ../x'],
    [create, '{"id":"d","layers":["000-a","a b"]}', 'invalid layer name: a b'],
    [create, '{"id":"d","cpu":"many"}', 'cpu must be a number from 0.01 to 1024'],
    [create, '{"id":"d","cpu":0}', 'cpu must be a number from 0.01 to 1024'],
    [create, '{"id":"d","cpu":1e999}', 'cpu must be a number from 0.01 to 1024'],
    [create, '{"id":"d","memory_mb":1.5}', 'memory_mb must be a whole number from 8 to 4194304'],
    [
      create,
      '{"id":"d","max_lifetime_s":-1}',
      'max_lifetime_s must be a whole number from 0 (unlimited) to 315360000',
    ],
    [create, '{"id":"d","allow_net":"x"}', 'allow_net must be an array of strings'],
    [create, '{"id":"d","owner":5}', 'owner must be a string'],
    [create, '{"id":"d","task":"\\u0000"}', 'task must not contain NUL'],
    [exec, '', 'cmd required'],
    [exec, '{"cmd":"  "}', 'cmd required'],
    [exec, '{"cmd":5}', 'cmd required'],
    [exec, `{"cmd":"${'x'.repeat(65_537)}"}`, 'cmd required, max 64KiB'],
    [exec, '{"cmd":"a\\u0000b"}', 'cmd must not contain NUL'],
    [exec, '{"cmd":"true","workdir":"tmp"}', 'workdir must be absolute path, no ..'],
    [exec, '{"cmd":"true","workdir":"/a/../b"}', 'workdir must be absolute path, no ..'],
    [exec, `{"cmd":"true","workdir":"/${'x'.repeat(512)}"}`, 'workdir must be absolute path, no ..'],
    [exec, '{"cmd":"true","timeout":"soon"}', 'timeout must be a number of seconds'],
    [exec, '{"cmd":"true","timeout":1e999}', 'timeout must be a number of seconds'],
    [{ ...exec, path: exec.path.replace('exec', 'activate') }, '{}', 'module required'],
    [
      { ...exec, path: exec.path.replace('exec', 'activate') },
      '{"module":"a/b"}',
      'module: alphanumeric/dash/underscore/dot only',
    ],
    [
      { ...exec, path: exec.path.replace('exec', 'snapshot') },
      '{"label":"a b"}',
      'label: alphanumeric/dash/underscore/dot only',
    ],
    [
      { ...exec, path: exec.path.replace('exec', 'snapshot') },
      '{"label":5}',
      'label: alphanumeric/dash/underscore/dot only',
    ],
    [
      { ...exec, path: exec.path.replace('exec', 'snapshot') },
      `{"label":"${'x'.repeat(129)}"}`,
      'label: 128 characters at most',
    ],
    [
      { ...exec, path: exec.path.replace('exec', 'activate') },
      `{"module":"100-${'x'.repeat(125)}"}`,
      'module: 128 characters at most',
    ],
    [{ ...exec, path: exec.path.replace('exec', 'restore') }, '{}', 'label required'],
    [
      { ...exec, path: exec.path.replace('exec', 'restore') },
      '{"label":".."}',
      'label: alphanumeric/dash/underscore/dot only',
    ],
  ];
  for (const [target, body, sentence] of table) {
    const answer = await server.send(target, body);
    assert.equal(answer.status, 400, `${target.path} ${String(body).slice(0, 80)}: ${answer.text}`);
    assert.equal(
      (answer.json as { error: string }).error,
      sentence,
      `${target.path} ${String(body).slice(0, 80)}`,
    );
  }
});

test('exec takes timeouts as the original did, clamps long ones and refuses none', async () => {
  const seen: number[] = [];
  const engine = thinEngine({
    processes: {
      exec: (_id, request) => {
        seen.push(request.timeoutS);
        return Promise.resolve(execRecord(1, request.cmd));
      },
    },
  });
  await using server = await ThinServer.start(engine);
  for (const timeout of ['null', '0.01', '1.2', '"90"', '"5m"', '"2h"', '1e300', '99999']) {
    assert.equal((await server.send(exec, `{"cmd":"true","timeout":${timeout}}`)).status, 200, timeout);
  }
  for (const timeout of ['0', '-5', '"0s"', '"soon"']) {
    assert.equal((await server.send(exec, `{"cmd":"true","timeout":${timeout}}`)).status, 400, timeout);
  }
  assert.deepEqual(seen, [300, 1, 2, 90, 300, 3600, 3600, 3600]);
});

test('the list of jobs is read some at a time and is one JSON array', async () => {
  const all = Array.from({ length: 40 }, (_, index) => jobInfo(index + 1));
  const asked: number[] = [];
  const jobs = (...[, { after, limit }]: Parameters<Engine['processes']['jobs']>): readonly JobInfo[] => {
    asked.push(limit);
    return all.filter(({ job_id: job }) => job > after).slice(0, limit);
  };
  await using server = await ThinServer.start(thinEngine({ processes: { jobs } }));
  const answer = await server.send({ path: '/cgi-bin/api/sandboxes/box/jobs' });
  assert.equal(answer.headers['content-type'], 'application/json');
  assert.deepEqual(answer.json, all);
  assert.ok(asked.every((limit) => limit <= limits.logsPageRecords));
  assert.equal((await server.send({ path: '/cgi-bin/api/sandboxes/gone/jobs' })).status, 404);
});

test('API says 404, 405 and 501 as documented', async () => {
  await using server = await ThinServer.start(thinEngine());
  const ask = async (method: string, path: string) => {
    const answer = await server.send({ method, path });
    return [answer.status, (answer.json as { error?: string; detail?: string } | undefined)?.error];
  };
  assert.deepEqual(await ask('GET', '/cgi-bin/api/sandboxes/gone'), [404, 'not found: gone']);
  assert.deepEqual(await ask('GET', '/cgi-bin/api/sandboxes/a%2Fb'), [404, 'not found: a/b']);
  assert.deepEqual(await ask('GET', '/cgi-bin/api/sandboxes/%zz'), [404, 'not found: %zz']);
  assert.deepEqual(await ask('POST', '/cgi-bin/api/sandboxes/box/explode'), [404, 'unknown action: explode']);
  assert.deepEqual(await ask('GET', '/cgi-bin/api/sandboxes/box/jobs/x'), [400, 'invalid job_id']);
  assert.deepEqual(await ask('GET', '/cgi-bin/api/sandboxes/box/jobs/0'), [400, 'invalid job_id']);
  assert.equal((await ask('GET', '/cgi-bin/nowhere'))[0], 404);
  assert.equal((await ask('GET', '/'))[0], 404);
  for (const path of ['..', '.', 'jobs/..', '%2e%2E', 'box/jobs/%2e.', 'x/.#', '..?x', 'box\\..']) {
    assert.deepEqual((await ask('DELETE', `/cgi-bin/api/sandboxes/${path}`))[0], 400, path);
  }
  for (const [method, path, allow] of [
    ['PUT', '/cgi-bin/api/sandboxes', 'GET, POST, HEAD'],
    ['POST', '/cgi-bin/api/sandboxes/box', 'GET, DELETE, HEAD'],
    ['GET', '/cgi-bin/api/sandboxes/box/exec', 'POST'],
    ['DELETE', '/cgi-bin/api/modules', 'GET, HEAD'],
    ['OPTIONS', '/cgi-bin/api/modules', 'GET, HEAD'],
  ] as const) {
    const answer = await server.send({ method, path });
    assert.deepEqual([answer.status, answer.headers.allow], [405, allow], `${method} ${path}`);
    assert.deepEqual(answer.json, { error: 'method not allowed', code: 'method_not_allowed' });
  }
  for (const [path, sentence] of Object.entries(notOffered)) {
    const answer = await server.send({ method: 'POST', path: path.replace('{id}', 'box') });
    assert.equal(answer.status, 501);
    assert.deepEqual(answer.json, { error: sentence, code: 'not_offered' });
  }
  assert.equal((await server.send({ path: '/cgi-bin/api/sandboxes/box/gui/status' })).status, 501);
  assert.equal((await server.send({ path: '/v1/sandboxes/box/exec' })).status, 426);
  const native = await server.send({ path: '/v1/modules/x', method: 'PATCH' });
  assert.equal(native.headers['content-type'], 'application/problem+json');
  assert.deepEqual((native.json as { status: number; code: string }).code, 'method_not_allowed');
});

test('API answers warnings for fields that have no effect', async () => {
  await using server = await ThinServer.start(thinEngine());
  const body = { id: 'd', features: ['gui'], gui: {}, policy: null, 'naïve\r\nx: y': 1 };
  const answer = await server.send(create, JSON.stringify(body));
  assert.equal(answer.status, 201);
  const codes = (answer.json as { warnings: { code: string }[] }).warnings.map(({ code }) => code);
  assert.deepEqual(codes, ['unsupported_field', 'unsupported_field', 'unknown_field']);
  for (const allow of ['null', '["none"]', '[]', '["pypi.org"]', '["*.Example.com:443","preset:npm"]']) {
    const net = await server.send(create, `{"id":"d","allow_net":${allow}}`);
    assert.deepEqual((net.json as { warnings: unknown[] }).warnings, [], allow);
  }
  const ran = await server.send(exec, '{"cmd":"true","env":{}}');
  assert.equal(ran.headers['squash-warning'], 'unknown fields ["env"]');
});

test('a condition that can not be kept is refused: the file stays', async () => {
  let removed = 0;
  const remove = (): Promise<void> => {
    removed += 1;
    return Promise.resolve();
  };
  await using server = await ThinServer.start(thinEngine({ files: { remove } }));
  const asked = { method: 'DELETE', path: '/v1/sandboxes/box/files?path=/a' };
  assert.equal((await server.send({ ...asked, headers: { 'if-match': '"1-2-3"' } })).status, 400);
  assert.equal(removed, 0);
  assert.equal((await server.send(asked)).status, 204);
  assert.equal(removed, 1);
});

test('a fault in a handler is a 500 that tells nothing, and the log has the rest', async () => {
  const list = (): never => {
    throw new TypeError('secret detail');
  };
  await using server = await ThinServer.start(thinEngine({ sandboxes: { list } }));
  const answer = await server.send({ path: '/cgi-bin/api/sandboxes' });
  assert.equal(answer.status, 500);
  assert.doesNotMatch(answer.text, /secret detail/);
  assert.match(server.logged, /secret detail/);
});

test('a wait that its client leaves, or that the end of the daemon ends, is no fault', async () => {
  let waiting = 0;
  const wait = async (...[, , { signal }]: Parameters<Engine['ports']['wait']>): Promise<void> => {
    waiting += 1;
    await setTimeout(60_000, undefined, { signal });
  };
  await using server = await ThinServer.start(thinEngine({ ports: { wait } }));
  const path = '/v1/sandboxes/box/ports/80/wait';
  const socket = connect(server.port, '127.0.0.1');
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  await waitFor('the wait to begin', () => waiting === 1);
  socket.destroy();
  await waitFor('the wait to end', () => server.service.active === 0);
  const told = server.send({ path });
  await waitFor('the next one to begin', () => waiting === 2);
  const closed = server.service.close();
  const { status, json: body } = await told;
  assert.equal(status, 503, JSON.stringify(body));
  assert.match(JSON.stringify(body), /"code":"shutting_down"/);
  await closed;
  assert.doesNotMatch(server.logged, /request\.fault/);
});

test('bytes that are no HTTP get an answer and lose their connection', async () => {
  await using server = await ThinServer.start(thinEngine());
  const cases: readonly [string, RegExp][] = [
    ['garbage\r\n\r\n', /^HTTP\/1\.1 400 /],
    ['GET / HTTP/1.1\r\n\r\n', /^HTTP\/1\.1 400 .*"code":"invalid_request"/s],
    [
      'GET / HTTP/1.1\r\nhost: localhost\r\nexpect: the-best\r\n\r\n',
      /^HTTP\/1\.1 400 .*"code":"invalid_request"/s,
    ],
    ['GET http://localhost/cgi-bin/health HTTP/1.1\r\nhost: localhost\r\n\r\n', /^HTTP\/1\.1 400 /],
    [`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`, /^HTTP\/1\.1 431 /],
    ['GET / HTTP/1.1\r\nhost: localhost\r\nhost\r\n\r\n', /^HTTP\/1\.1 400 /],
    [
      'POST /cgi-bin/api/sandboxes HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
      /^HTTP\/1\.1 400 /,
    ],
    ['GET /cgi-bin/health HTTP/1.0\r\n\r\n', /^HTTP\/1\.1 200 /],
    ['GET /cgi-bin/health HTTP/1.1\r\nhost: localhost\r\nhost: evil.test\r\n\r\n', /^HTTP\/1\.1 400 /],
    [
      'GET /cgi-bin/health HTTP/1.1\r\nhost: localhost\r\n\r\ngarbage\r\n\r\n',
      /^HTTP\/1\.1 200 .*"status":"ok"[^{]*\{[^{]*$/s,
    ],
    [
      'POST /cgi-bin/api/sandboxes HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
      /^HTTP\/1\.1 400 /,
    ],
    [
      'CONNECT evil.test:443 HTTP/1.1\r\nhost: localhost\r\n\r\n',
      /^HTTP\/1\.1 400 [^]*CONNECT is for proxies/,
    ],
  ];
  for (const [bytes, expected] of cases) {
    const socket = connect(server.port, '127.0.0.1');
    socket.end(bytes);
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk));
    socket.on('error', () => undefined);
    await once(socket, 'close');
    assert.match(text, expected, bytes.slice(0, 60));
  }
  assert.equal((await server.send({ path: '/cgi-bin/health' })).status, 200);
});

test('garbage takes no answer away, and puts nothing into one', async () => {
  const release = Promise.withResolvers<void>();
  async function* jobLog(): AsyncGenerator<JobLogLine, void, void> {
    yield { number: 1, stream: 'stdout', text: 'one' };
    await release.promise;
  }
  const slow = async (_id: string, request: { readonly cmd: string }): Promise<ExecRecord> => {
    await release.promise;
    return execRecord(1, request.cmd);
  };
  await using server = await ThinServer.start(thinEngine({ processes: { jobLog, exec: slow } }));
  const open = () => {
    const socket = connect(server.port, '127.0.0.1');
    const got = { text: '', isClosed: false };
    socket.setEncoding('latin1').on('data', (chunk: string) => (got.text += chunk));
    socket.on('error', () => undefined).on('close', () => (got.isClosed = true));
    return { socket, got };
  };
  const streamed = open();
  streamed.socket.write(
    'GET /cgi-bin/api/sandboxes/box/jobs/1/logs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n',
  );
  await waitFor('the stream to begin', () => streamed.got.text.includes('one'));
  streamed.socket.write('zz\r\n');
  await waitFor('the end of the connection', () => streamed.got.isClosed);
  assert.doesNotMatch(streamed.got.text, /400|invalid_request/);
  const two = open();
  const ask =
    'POST /cgi-bin/api/sandboxes/box/exec HTTP/1.1\r\nhost: localhost\r\ncontent-length: 14\r\n\r\n{"cmd":"slow"}';
  two.socket.write(`${ask}${ask}garbage\r\n\r\n`);
  await waitFor('both to be heard', () => server.service.active === 2);
  release.resolve();
  await waitFor('the end of the connection', () => two.got.isClosed);
  assert.equal(two.got.text.split('HTTP/1.1 200 ').length, 3);
});

test('a WebSocket that is asked for behind a request that waits is answered behind it, and is none', async () => {
  const release = Promise.withResolvers<void>();
  const slow = async (_id: string, request: { readonly cmd: string }): Promise<ExecRecord> => {
    await release.promise;
    return execRecord(1, request.cmd);
  };
  await using server = await ThinServer.start(thinEngine({ processes: { exec: slow } }));
  const socket = connect(server.port, '127.0.0.1');
  let got = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => (got += chunk));
  const upgrade =
    'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-protocol: squash.exec.v1\r\n' +
    'sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n';
  socket.write(
    'POST /cgi-bin/api/sandboxes/box/exec HTTP/1.1\r\nhost: localhost\r\ncontent-length: 14\r\n\r\n{"cmd":"slow"}' +
      `GET /v1/sandboxes/box/exec HTTP/1.1\r\nhost: localhost\r\n${upgrade}`,
  );
  await waitFor('both to be heard', () => server.service.active === 2);
  assert.equal(got, '');
  release.resolve();
  await waitFor('both answers', () => got.includes('upgrade_required'));
  assert.match(got, /^HTTP\/1\.1 200 .*HTTP\/1\.1 426 /s);
  socket.destroy();
});

test('a client that sends requests in a row gets all answers, and is cut off when too many wait for theirs', async () => {
  let release = Promise.withResolvers<void>();
  await using server = await ThinServer.start(
    thinEngine({
      processes: {
        exec: async (_id, request) => {
          await release.promise;
          return execRecord(1, request.cmd);
        },
      },
    }),
  );
  const first =
    'POST /cgi-bin/api/sandboxes/box/exec HTTP/1.1\r\nhost: localhost\r\ncontent-length: 14\r\n\r\n{"cmd":"slow"}';
  const row = (count: number): string =>
    first + 'GET /cgi-bin/health HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(count - 1);
  const open = (count: number) => {
    const socket = connect(server.port, '127.0.0.1');
    const got = { text: '', isClosed: false };
    socket.setEncoding('latin1').on('data', (chunk: string) => (got.text += chunk));
    socket.on('error', () => undefined).on('close', () => (got.isClosed = true));
    socket.write(row(count));
    return { socket, got };
  };
  const { socket, got } = open(limits.unansweredMax);
  await waitFor('all to be heard', () => server.service.active === limits.unansweredMax);
  release.resolve();
  await waitFor('the answers', () => got.text.split('HTTP/1.1 200 ').length === limits.unansweredMax + 1);
  // What is answered counts no more.
  socket.write(row(limits.unansweredMax));
  await waitFor('more', () => got.text.split('HTTP/1.1 200 ').length === 2 * limits.unansweredMax + 1);
  socket.destroy();
  release = Promise.withResolvers();
  const flood = open(limits.unansweredMax + 1);
  await waitFor('the end of the connection', () => flood.got.isClosed);
  assert.equal(flood.got.text, '');
  release.resolve();
});

test('the Unix socket is its owner’s only, at a path of any length, and a stale one is replaced', async () => {
  const long = 'x'.repeat(120);
  await using server = await ThinServer.start(thinEngine());
  const { mkdir } = await import('node:fs/promises');
  const runDir = join(server.directory, long);
  await mkdir(runDir);
  const socket = join(runDir, 'api.sock');
  {
    await using second = await ThinServer.start(thinEngine(), { runDir });
    assert.equal((await stat(socket)).mode & 0o777, 0o600);
    await assert.rejects(ThinServer.start(thinEngine(), { runDir }), { code: 'data_locked' });
    assert.equal(second.service.socketPath, socket);
  }
  await assert.rejects(stat(socket), { code: 'ENOENT' });
  assert.equal((await stat(server.service.socketPath)).mode & 0o777, 0o600);
});

test('listening where another program does is a configuration error', async () => {
  await using server = await ThinServer.start(thinEngine());
  const listen = { host: '127.0.0.1', port: server.port };
  await assert.rejects(ThinServer.start(thinEngine(), { listen }), {
    code: 'config_invalid',
    message: /another program listens there/,
  });
});
