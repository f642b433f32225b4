/**
 * The original's endpoints on a real daemon, row for row: shapes, statuses, sentences, and what each does.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isOnVms, vmModules } from '../support/backend.ts';
import { ApiClient } from '../support/api-client.ts';
import { packModule } from '../support/base-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const sandboxes = '/cgi-bin/api/sandboxes';
const seedKeys = [
  'id',
  'owner',
  'task',
  'layers',
  'created',
  'last_active',
  'mounted',
  'exec_count',
  'upper_bytes',
  'snapshots',
  'active_snapshot',
  'cpu',
  'memory_mb',
  'max_lifetime_s',
  'allow_net',
];

let directory: string;
let daemon: TestDaemon;
let api: ApiClient;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'squash-api-'));
  await packModule(join(directory, 'tool.squashfs'), { 'opt/tool/answer': '42\n' });
  await packModule(join(directory, 'other.squashfs'), { 'opt/tool/answer': '41\n' });
  daemon = await TestDaemon.start({
    env: { SQUASH_MAX_SANDBOXES: '4' },
    modules: {
      '100-other': join(directory, 'other.squashfs'),
      '100-tool': join(directory, 'tool.squashfs'),
    },
  });
  api = new ApiClient(daemon);
});

after(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

async function withSandbox(
  id: string,
  work: (path: string) => Promise<void>,
  body: object = {},
): Promise<void> {
  const created = await api.post(sandboxes, { id, layers: '000-base-test', ...body });
  assert.equal(created.status, 201, created.text);
  try {
    await work(`${sandboxes}/${id}`);
  } finally {
    await api.delete(`${sandboxes}/${id}`);
  }
}

test('health has the seed’s fields, takes any method, and counts', async () => {
  // The daemon answers before the egress process does, and says so meanwhile.
  const json = await waitFor('health without a problem', async () => {
    const answer = await api.get('/cgi-bin/health');
    return 'problems' in answer.json ? undefined : answer.json;
  });
  assert.deepEqual(Object.keys(json), [
    'status',
    'backend',
    'tailscale',
    'sandboxes',
    'modules',
    'base_ready',
  ]);
  assert.deepEqual(
    [json.status, json.backend, json.tailscale, json.modules, json.base_ready],
    ['ok', isOnVms ? 'vm' : 'chroot', { status: 'off', ip: '' }, 3 + vmModules.length, true],
  );
  for (const method of ['POST', 'PUT', 'DELETE', 'HEAD']) {
    assert.equal((await api.send(method, '/cgi-bin/health')).status, 200, method);
  }
});

test('modules is an array of name, size and location, or the names', async () => {
  const { json } = await api.get('/cgi-bin/api/modules');
  assert.deepEqual(
    json.map(({ name, location }: { name: string; location: string }) => [name, location]),
    [
      ['000-base-test', 'local'],
      ['100-other', 'local'],
      ['100-tool', 'local'],
      ...vmModules.map((name) => [name, 'local']),
    ],
  );
  assert.ok(json.every(({ size }: { size: number }) => size > 0));
  const names = await api.get('/cgi-bin/api/modules?format=names');
  assert.deepEqual(names.json, { modules: ['000-base-test', '100-other', '100-tool', ...vmModules] });
  assert.equal((await api.get('/cgi-bin/api/modules?format=xml')).status, 400);
});

test('create answers 201 with the sandbox and its defaults', async () => {
  await withSandbox('defaults', async (path) => {
    const { json } = await api.get(path);
    for (const key of seedKeys) assert.ok(key in json, key);
    assert.deepEqual(
      {
        id: json.id,
        owner: json.owner,
        task: json.task,
        layers: json.layers,
        mounted: json.mounted,
        exec_count: json.exec_count,
        snapshots: json.snapshots,
        active_snapshot: json.active_snapshot,
        cpu: json.cpu,
        memory_mb: json.memory_mb,
        max_lifetime_s: json.max_lifetime_s,
        allow_net: json.allow_net,
        state: json.state,
        backend: json.backend,
      },
      {
        id: 'defaults',
        owner: 'anon',
        task: '',
        layers: ['000-base-test'],
        mounted: true,
        exec_count: 0,
        snapshots: [],
        active_snapshot: null,
        cpu: 2,
        memory_mb: 1024,
        max_lifetime_s: 0,
        allow_net: null,
        state: 'ready',
        backend: isOnVms ? 'vm' : 'chroot',
      },
    );
    assert.match(json.created, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });
});

test('create takes the README’s body, arrays, text for numbers, and no layers at all', async () => {
  const readme = {
    owner: 'alice',
    layers: '000-base-test,100-tool',
    task: 'run tests',
    cpu: 1.0,
    memory_mb: 512,
    max_lifetime_s: 1800,
    allow_net: ['api.anthropic.com', 'pypi.org'],
  };
  await withSandbox(
    'readme',
    async (path) => {
      const { json } = await api.get(path);
      assert.deepEqual(json.layers, ['000-base-test', '100-tool']);
      assert.deepEqual(json.allow_net, readme.allow_net);
      assert.ok(json.warnings.every(({ code }: { code: string }) => code !== 'unsupported_field'));
      const { json: record } = await api.post(`${path}/exec`, { cmd: 'cat /opt/tool/answer' });
      assert.equal(record.stdout, '42\n');
    },
    readme,
  );
  await withSandbox('text', async () => {}, { cpu: '0.5', memory_mb: '64', layers: [' 000-base-test '] });
  await withSandbox(
    'none',
    async (path) => assert.deepEqual((await api.get(path)).json.layers, ['000-base-test']),
    { layers: null },
  );
});

test('create refuses with the seed’s statuses and sentences, and leaves nothing', async () => {
  await withSandbox('taken', async () => {
    const table: readonly [object, string, string][] = [
      [{}, 'id required', 'invalid_request'],
      [{ id: 'a b' }, 'id: alphanumeric/dash/underscore only', 'invalid_request'],
      [{ id: 'taken' }, 'already exists: taken', 'sandbox_exists'],
      [{ id: 'x', layers: '000-base-test,999-gone' }, 'module not found: 999-gone', 'module_not_found'],
      [{ id: 'x', layers: ['../etc'] }, 'invalid layer name: ../etc', 'invalid_request'],
    ];
    for (const [body, error, code] of table) {
      const answer = await api.post(sandboxes, body);
      assert.equal(answer.status, 400, answer.text);
      assert.deepEqual(answer.json, { error, code });
    }
    assert.deepEqual(
      (await api.get(sandboxes)).json.map(({ id }: { id: string }) => id),
      ['taken'],
    );
  });
});

test('create refuses beyond SQUASH_MAX_SANDBOXES, and the list is sorted by id', async () => {
  await withSandbox('d', () =>
    withSandbox('b', () =>
      withSandbox('a', () =>
        withSandbox('c', async () => {
          const answer = await api.post(sandboxes, { id: 'e', layers: '000-base-test' });
          assert.equal(answer.status, 400);
          assert.deepEqual(answer.json, { error: 'sandbox limit reached (4)', code: 'sandbox_limit' });
          const { json } = await api.get(sandboxes);
          assert.deepEqual(
            json.map(({ id }: { id: string }) => id),
            ['a', 'b', 'c', 'd'],
          );
        }),
      ),
    ),
  );
});

test('what is done to a sandbox that does not exist is 404', async () => {
  const expected = { error: 'not found: gone', code: 'sandbox_not_found' };
  const requests: readonly [string, string, unknown][] = [
    ['GET', '', undefined],
    ['DELETE', '', undefined],
    ['POST', '/exec', { cmd: 'true' }],
    ['POST', '/exec-bg', { cmd: 'true' }],
    ['POST', '/activate', { module: '100-tool' }],
    ['POST', '/snapshot', {}],
    ['POST', '/restore', { label: 'x' }],
    ['GET', '/logs', undefined],
    ['GET', '/jobs', undefined],
    ['GET', '/jobs/1', undefined],
    ['GET', '/jobs/1/logs', undefined],
    ['DELETE', '/jobs/1', undefined],
  ];
  for (const [method, action, body] of requests) {
    const answer = await api.send(method, `${sandboxes}/gone${action}`, body === undefined ? {} : { body });
    assert.equal(answer.status, 404, `${method} ${action}: ${answer.text}`);
    assert.deepEqual(answer.json, expected);
  }
});

test('DELETE answers 204 with nothing, then 404', async () => {
  await api.post(sandboxes, { id: 'short', layers: '000-base-test' });
  const gone = await api.delete(`${sandboxes}/short`);
  assert.deepEqual([gone.status, gone.text], [204, '']);
  assert.equal((await api.delete(`${sandboxes}/short`)).status, 404);
});

test('exec answers the seed’s record, runs once, and keeps failing commands at 200', async () => {
  await withSandbox('run', async (path) => {
    const { status, json } = await api.post(`${path}/exec`, {
      cmd: 'echo ran >> /count; pwd; echo err >&2; exit 3',
      workdir: '/tmp',
    });
    assert.equal(status, 200);
    assert.deepEqual(
      [json.seq, json.workdir, json.exit_code, json.stdout, json.stderr, json.timed_out, json.reason],
      [1, '/tmp', 3, '/tmp\n', 'err\n', false, 'exited'],
    );
    assert.equal((await api.post(`${path}/exec`, { cmd: 'wc -l < /count' })).json.stdout.trim(), '1');
    const binary = await api.post(`${path}/exec`, { cmd: "printf 'a\\377b\\000c'" });
    assert.deepEqual([binary.json.stdout, binary.json.stdout_bytes], ['a\uFFFDb\0c', 5]);
    const long = await api.post(`${path}/exec`, { cmd: 'head -c 70000 /dev/zero | tr "\\0" x' });
    assert.deepEqual(
      [long.json.stdout.length, long.json.truncated, long.json.stdout_bytes],
      [65_536, true, 70_000],
    );
    const none = await api.post(`${path}/exec`, { cmd: 'true', timeout: 0 });
    assert.deepEqual(
      [none.status, none.json.error],
      [400, 'timeout must be a number of seconds, more than 0'],
    );
    const late = await api.post(`${path}/exec`, { cmd: 'sleep 60', timeout: 1 });
    assert.deepEqual([late.json.exit_code, late.json.timed_out, late.json.reason], [124, true, 'timed_out']);
    assert.equal((await api.post(`${path}/exec`, { cmd: 'exit 124' })).json.timed_out, false);
    assert.equal((await api.post(`${path}/exec`, { cmd: 'kill -9 $$' })).json.exit_code, 137);
    const { json: log } = await api.get(`${path}/logs`);
    assert.deepEqual(
      log.map(({ seq }: { seq: number }) => seq),
      [1, 2, 3, 4, 5, 6, 7],
    );
    assert.deepEqual(log[0], json);
    assert.equal((await api.get(`${path}/logs?after=5&limit=1`)).json[0].seq, 6);
    assert.equal((await api.get(path)).json.exec_count, 7);
  });
});

test('exec in a directory that does not exist fails and runs nothing', async () => {
  await withSandbox('lost', async (path) => {
    const { status, json } = await api.post(`${path}/exec`, { cmd: 'touch /ran', workdir: '/gone' });
    assert.equal(status, 200);
    assert.equal(json.exit_code, 126, 'as the command line says it; 127 is a program that is not there');
    assert.match(json.stderr, /working directory/);
    assert.equal((await api.post(`${path}/exec`, { cmd: 'test -e /ran' })).json.exit_code, 1);
  });
});

test('execs of one sandbox run side by side, each with a number of its own', async () => {
  await withSandbox('many', async (path) => {
    // Each waits for all others: one after the other none would ever end.
    const meet = (name: number): string =>
      `touch /here-${name}; until [ "$(ls -d /here-* | wc -l)" = 8 ]; do sleep 0.02; done`;
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, name) => api.post(`${path}/exec`, { cmd: meet(name), timeout: 60 })),
    );
    assert.ok(answers.every(({ json }) => json.exit_code === 0));
    const numbers = answers.map(({ json }) => json.seq).sort((one: number, other: number) => one - other);
    assert.deepEqual(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
  });
});

test('the sandbox sees nothing of the daemon’s environment', async () => {
  await withSandbox('env', async (path) => {
    const { json } = await api.post(`${path}/exec`, { cmd: 'env' });
    assert.doesNotMatch(json.stdout, /SQUASH_/);
  });
});

test('layers with equal numbers lie in the order of their names, however they come', async () => {
  const answer = async (path: string) =>
    (await api.post(`${path}/exec`, { cmd: 'cat /opt/tool/answer' })).json.stdout;
  for (const layers of ['000-base-test,100-tool,100-other', ['100-other', '100-tool', '000-base-test']]) {
    await withSandbox('equal', async (path) => assert.equal(await answer(path), '42\n'), { layers });
  }
  await withSandbox('added', async (path) => {
    await api.post(`${path}/activate`, { module: '100-tool' });
    await api.post(`${path}/activate`, { module: '100-other' });
    assert.equal(await answer(path), '42\n');
  });
});

test('activate adds a module and keeps what was written', async () => {
  await withSandbox('act', async (path) => {
    await api.post(`${path}/exec`, { cmd: 'echo kept > /kept' });
    const { status, json } = await api.post(`${path}/activate`, { module: '100-tool' });
    assert.equal(status, 200);
    assert.deepEqual(json.layers, ['000-base-test', '100-tool']);
    const { json: record } = await api.post(`${path}/exec`, { cmd: 'cat /kept /opt/tool/answer' });
    assert.equal(record.stdout, 'kept\n42\n');
    const again = await api.post(`${path}/activate`, { module: '100-tool' });
    assert.deepEqual([again.status, again.json.error], [400, 'already active: 100-tool']);
    const unknown = await api.post(`${path}/activate`, { module: 'gone' });
    assert.deepEqual([unknown.status, unknown.json.error], [400, 'module not found: gone']);
    const gone = await api.post(`${path}/activate`, { module: '999-gone' });
    assert.deepEqual([gone.status, gone.json.error], [400, 'module not found: 999-gone']);
  });
});

test('snapshot and restore bring back what was written, and nothing newer', async () => {
  await withSandbox('snap', async (path) => {
    await api.post(`${path}/exec`, { cmd: 'echo one > /file' });
    const taken = await api.post(`${path}/snapshot`, { label: 'first' });
    assert.equal(taken.status, 200);
    assert.equal(taken.json.snapshot, 'first');
    assert.ok(taken.json.size > 0);
    const twice = await api.post(`${path}/snapshot`, { label: 'first' });
    assert.deepEqual([twice.status, twice.json.error], [400, 'exists: first']);
    const unnamed = await api.send('POST', `${path}/snapshot`);
    assert.match(unnamed.json.snapshot, /^\d{8}-\d{6}$/);
    await api.post(`${path}/exec`, { cmd: 'echo two > /file; echo new > /newer' });
    const { status, json } = await api.post(`${path}/restore`, { label: 'first' });
    assert.equal(status, 200);
    assert.equal(json.active_snapshot, 'first');
    assert.deepEqual(
      json.snapshots.map(({ label }: { label: string }) => label),
      ['first', unnamed.json.snapshot],
    );
    const { json: record } = await api.post(`${path}/exec`, { cmd: 'cat /file; ls /newer' });
    assert.equal(record.stdout, 'one\n');
    const gone = await api.post(`${path}/restore`, { label: 'never' });
    assert.deepEqual([gone.status, gone.json.error], [400, 'not found: never']);
  });
});

test('restore takes away a module that was activated after the snapshot', async () => {
  await withSandbox('back', async (path) => {
    await api.post(`${path}/snapshot`, { label: 'before' });
    await api.post(`${path}/activate`, { module: '100-tool' });
    const { status, json } = await api.post(`${path}/restore`, { label: 'before' });
    assert.equal(status, 200);
    assert.deepEqual(json.layers, ['000-base-test']);
    const { json: record } = await api.post(`${path}/exec`, { cmd: 'cat /opt/tool/answer' });
    assert.equal(record.exit_code, 1);
  });
});

test('metrics and info tell about the daemon, without its secrets', async () => {
  const metrics = await api.get('/metrics');
  assert.match(metrics.text, /^squash_http_requests_total\{operation="health",status="200"\} \d+$/m);
  for (const line of metrics.text.trimEnd().split('\n')) {
    assert.match(line, /^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{.*\})? -?[0-9.e+-]+)$/);
  }
  const { json } = await api.get('/v1/info');
  assert.deepEqual([json.api, json.listen.port, json.auth], [1, daemon.port, false]);
  assert.equal(json.data_dir, daemon.dataDir);
  const config = new Map(json.config.map((row: { name: string }) => [row.name, row]));
  assert.ok(config.has('SQUASH_MAX_SANDBOXES'));
  const described = await api.get('/openapi.json');
  assert.equal(described.json.openapi, '3.1.0');
});

test('modules are uploaded, are idempotent, and are removed when nobody uses them', async () => {
  const { readFile } = await import('node:fs/promises');
  await packModule(join(directory, 'extra.squashfs'), { 'opt/extra': 'x\n' });
  await packModule(join(directory, 'other.squashfs'), { 'opt/extra': 'y\n' });
  const type = { 'content-type': 'application/octet-stream' };
  const put = async (file: string, query = '') =>
    api.send('PUT', `/v1/modules/200-extra${query}`, {
      headers: type,
      text: await readFile(join(directory, file)),
    });
  assert.deepEqual((await put('extra.squashfs')).json.name, '200-extra');
  assert.equal((await put('extra.squashfs')).status, 200);
  assert.equal((await put('other.squashfs')).json.code, 'module_exists');
  assert.equal((await put('other.squashfs', '?replace=true')).status, 200);
  const json = await api.send('PUT', '/v1/modules/300-json', {
    headers: { 'content-type': 'application/json' },
    text: '"hsqs"',
  });
  assert.deepEqual([json.status, json.json.code], [415, 'unsupported_media_type']);
  const bad = await api.send('PUT', '/v1/modules/300-bad', { headers: type, text: 'no squashfs at all' });
  assert.deepEqual([bad.status, bad.json.code], [422, 'module_invalid']);
  await withSandbox('user', async () => {
    assert.equal((await api.delete('/v1/modules/000-base-test')).json.code, 'module_in_use');
  });
  assert.equal((await api.delete('/v1/modules/200-extra')).status, 204);
  const gone = await api.delete('/v1/modules/200-extra');
  assert.deepEqual([gone.status, gone.json.code], [404, 'module_not_found']);
});
