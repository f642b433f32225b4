/** The unary exec of `/v1` on a real daemon: what is asked for and answered, and that a repeated request runs once. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { limits } from '@squash/contract/limits';
import { type ApiAnswer, ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const exec = '/v1/sandboxes/box/exec';

let daemon: TestDaemon;
let api: ApiClient;

before(async () => {
  daemon = await TestDaemon.start();
  api = new ApiClient(daemon);
  await api.post('/cgi-bin/api/sandboxes', { id: 'box', layers: '000-base-test' });
});

after(() => daemon[Symbol.asyncDispose]());

function once(key: string, body: unknown): Promise<ApiAnswer> {
  return api.send('POST', exec, { body, headers: { 'idempotency-key': key } });
}

test('a command by argv or by shell answers its streams, its end and its times', async () => {
  const { status, json } = await api.post(exec, {
    argv: ['sh', '-c', 'printf "$1"; echo err >&2; exit 3', 'sh', 'a b'],
  });
  assert.equal(status, 200);
  assert.deepEqual(
    [json.stdout, json.stderr, json.exit_code, json.signal, json.reason, json.timed_out, json.truncated],
    ['a b', 'err\n', 3, null, 'exited', false, false],
  );
  assert.deepEqual([json.argv.length, json.state, json.stdin, json.stdout_bytes], [5, 'ended', 'none', 3]);
  assert.ok(Date.parse(json.finished_at) - Date.parse(json.started_at) === json.duration_ms);
  const { json: shell } = await api.post(exec, { shell: 'kill -9 $$' });
  assert.deepEqual([shell.exit_code, shell.signal, shell.reason, shell.argv], [137, 9, 'signaled', null]);
  const { json: missing } = await api.post(exec, { argv: ['no-such-program'] });
  assert.equal(missing.exit_code, 127);
  assert.match(missing.stderr, /no-such-program|program/);
});

test('environment, directory, user, tag, input and time-out are what was asked for', async () => {
  const { json: map } = await api.post(exec, { shell: "awk '{ print $3 }' /proc/self/uid_map" });
  // Where the host gives one id there is no other user to be.
  const user = map.stdout.trim() === '1' ? { uid: 0, gid: 0 } : { uid: 1000, gid: 1001 };
  const { json } = await api.post(exec, {
    shell: 'echo "$A $(pwd) $(id -u) $(id -g)"; cat',
    env: { A: 'x y' },
    cwd: '/tmp',
    user,
    tag: 'one',
    stdin: 'line\n',
  });
  assert.equal(json.stdout, `x y /tmp ${user.uid} ${user.gid}\nline\n`);
  assert.deepEqual([json.tag, json.user, json.cwd, json.stdin], ['one', user, '/tmp', 'ended']);
  const { json: late } = await api.post(exec, { shell: 'echo a; sleep 100', timeout_ms: 300 });
  assert.deepEqual(
    [late.exit_code, late.timed_out, late.reason, late.stdout],
    [124, true, 'timed_out', 'a\n'],
  );
});

test('input of any size and any bytes arrives whole', async () => {
  const bytes = Buffer.alloc(700_000, Buffer.from([0, 255, 10, 13, 0xc3]));
  const { json } = await api.post(exec, {
    shell: 'cat',
    stdin_base64: bytes.toString('base64'),
    encoding: 'base64',
  });
  assert.ok(Buffer.from(json.stdout, 'base64').equals(bytes));
  const { json: deaf } = await api.post(exec, { shell: 'exec <&-; echo deaf', stdin: 'x'.repeat(500_000) });
  assert.deepEqual([deaf.stdout, deaf.exit_code], ['deaf\n', 0]);
});

test('longer output keeps the end that was asked for, and says what was written', async () => {
  const shell = 'seq 1 100000; echo oops >&2';
  const { json: head } = await api.post(exec, { shell, output_bytes_max: 12 });
  assert.deepEqual([head.stdout, head.truncated, head.stdout_bytes], ['1\n2\n3\n4\n5\n6\n', true, 588_895]);
  const { json: tail } = await api.post(exec, { shell: 'seq 1 100000', output_bytes_max: 13, keep: 'tail' });
  assert.deepEqual([tail.stdout, tail.truncated], ['99999\n100000\n', true]);
  const { json: none } = await api.post(exec, { shell, output_bytes_max: 0 });
  assert.deepEqual([none.stdout, none.stderr, none.truncated], ['', '', true]);
  const { json: cut } = await api.post(exec, {
    shell: "printf 'a\\303\\251\\303\\251'",
    output_bytes_max: 4,
  });
  assert.equal(cut.stdout, 'aé');
  const { json: late } = await api.post(exec, {
    shell: "printf '\\303\\251\\303\\251a'",
    output_bytes_max: 4,
    keep: 'tail',
  });
  assert.equal(late.stdout, 'éa');
});

test('bytes that are no text become U+FFFD, or are given as they are', async () => {
  const shell = "printf 'a\\377\\033[2Jb\\000'";
  assert.equal((await api.post(exec, { shell })).json.stdout, 'a\ufffd\u001b[2Jb\0');
  const { json } = await api.post(exec, { shell, encoding: 'base64' });
  assert.deepEqual([...Buffer.from(json.stdout, 'base64')], [97, 255, 27, 91, 50, 74, 98, 0]);
});

test('a user is found by name in the files of the sandbox, with his directory, or the request says that there is none', async () => {
  const lines = ['joe:x:1200:1300::/home/joe:/bin/sh', 'bad:x:-1:0:::', 'far:x:70000:0:::', 'joe:x:0:0::/:'];
  assert.equal(
    (await api.post(exec, { shell: `printf '%s\\n' '${lines.join("' '")}' >>/etc/passwd` })).json.exit_code,
    0,
  );
  const shell = 'echo $(id -u):$(id -g) $HOME $USER $LOGNAME; cd /; echo a >/tmp/own';
  const { json } = await api.post(exec, { shell: `chmod 1777 /tmp; ${shell}`, user: 'root' });
  assert.equal(json.stdout, '0:0 /root root root\n');
  await api.post(exec, { shell: 'rm /tmp/own' });
  assert.equal((await api.post(exec, { shell, user: 'joe' })).json.stdout, '1200:1300 /home/joe joe joe\n');
  const env = { HOME: '/else' };
  assert.equal((await api.post(exec, { shell, user: 'joe', env })).json.stdout, '1200:1300 /else joe joe\n');
  const file = `${exec.replace(/exec$/, 'files')}?path=/tmp/own`;
  assert.equal((await api.get(`${file}&as=joe`)).text, 'a\n');
  for (const name of ['nobody-here', 'bad', 'far']) {
    assert.equal((await api.post(exec, { shell, user: name })).json.code, 'user_not_found');
    assert.equal((await api.get(`${file}&as=${name}`)).json.code, 'user_not_found');
  }
  // Each look has its turn among the sandbox's file operations.
  const many = Array.from({ length: 100 }, () => api.post(exec, { argv: ['true'], user: 'joe' }));
  for (const { json: each } of await Promise.all(many)) assert.equal(each.exit_code, 0, JSON.stringify(each));
  await api.post(exec, { shell: 'mv /etc/passwd /etc/kept; mkdir /etc/passwd' });
  const unread = (await api.post(exec, { shell, user: 'joe' })).json;
  assert.equal(unread.code, 'user_not_found');
  assert.match(unread.detail, /illegal operation on a directory/);
  await api.post(exec, { shell: 'rmdir /etc/passwd; mv /etc/kept /etc/passwd' });
});

test('a request that can not be meant is refused', async () => {
  const refused: readonly [unknown, RegExp][] = [
    [{}, /exactly one of argv and shell/],
    [{ argv: ['a'], shell: 'b' }, /exactly one of argv and shell/],
    [{ argv: [] }, /argv/],
    [{ argv: ['a\0b'] }, /NUL/],
    [{ shell: 'true', cmd: 'true' }, /cmd/],
    [{ shell: 'true', stdin: 'a', stdin_base64: 'YQ==' }, /exclude/],
    [{ shell: 'true', timeout_ms: 0 }, /timeout_ms/],
    [{ shell: 'true', output_bytes_max: limits.processOutputBytesMax + 1 }, /output_bytes_max/],
    [{ shell: 'true', user: '-root' }, /user/],
    [{ argv: ['a'.repeat(300_000)] }, /bytes at most/],
    [{ shell: 'true', tag: 'a'.repeat(200) }, /tag/],
  ];
  for (const [body, sentence] of refused) {
    const { status, json } = await api.post(exec, body);
    assert.deepEqual([status, json.code], [400, 'invalid_request'], JSON.stringify(body).slice(0, 100));
    assert.match(json.detail, sentence);
  }
  assert.equal((await api.post('/v1/sandboxes/none/exec', { shell: 'true' })).json.code, 'sandbox_not_found');
});

test('a repeated request with one key runs once, whoever comes first', async () => {
  const body = { shell: 'echo x >> /once; sleep 0.3; wc -l < /once' };
  const answers = await Promise.all([1, 2, 3].map(() => once('first', body)));
  assert.deepEqual(
    answers.map(({ json }) => [json.process, json.stdout.trim()]),
    answers.map(() => [answers[0]?.json.process, '1']),
  );
  assert.deepEqual((await once('first', body)).json, answers[0]?.json);
  const { status, json } = await once('first', { ...body, cwd: '/tmp' });
  assert.deepEqual([status, json.code], [422, 'idempotency_mismatch']);
  assert.notEqual((await once('second', body)).json.process, answers[0]?.json.process);
  assert.equal((await once('', body)).status, 400);
  assert.equal((await once('x'.repeat(300), body)).status, 400);
});

test('a request that was refused is a new one when it is repeated', async () => {
  const running = Array.from({ length: limits.execsRunningMax }, () => api.post(exec, { shell: 'sleep 5' }));
  const full = (): Promise<ApiAnswer> => once('refused', { shell: 'exit 3' });
  await waitFor('no room to be left', async () => (await api.post(exec, { shell: 'true' })).status === 429);
  assert.equal((await full()).json.code, 'exec_limit');
  await Promise.all(running);
  assert.equal((await full()).json.exit_code, 3);
});

for (const point of ['exec.started', 'exec.output', 'exec.finished', 'exec.released']) {
  test(`a repeated request after the daemon died at ${point} gets the first one’s result`, async () => {
    await using dying = await TestDaemon.start();
    const client = new ApiClient(dying);
    await client.post('/cgi-bin/api/sandboxes', { id: 'box', layers: '000-base-test' });
    await dying.kill();
    await dying.launch({ SQUASH_FAULT_POINT: point });
    await dying.healthy();
    const input = 'y'.repeat(200_000);
    const body = { shell: 'echo x >> /runs; sleep 0.2; wc -c; wc -l < /runs', stdin: input };
    const headers = { 'idempotency-key': 'k' };
    const cut = await client.send('POST', exec, { body, headers }).catch(() => undefined);
    assert.equal(cut, undefined);
    await dying.kill();
    await dying.start();
    const { status, json } = await client.send('POST', exec, { body, headers });
    assert.deepEqual([status, json.exit_code, json.reason], [200, 0, 'exited']);
    assert.deepEqual(json.stdout.trim().split(/\s+/), ['200000', '1']);
  });
}
