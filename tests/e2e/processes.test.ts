/** Processes of `/v1` on a real daemon: started, followed over plain HTTP, fed, signalled, waited for. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { limits } from '@squash/contract/limits';
import type { ProcessInfo } from '@squash/contract/process';
import { type ApiAnswer, ApiClient } from '../support/api-client.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { bytesOf, follow, type Format, gather, parsed } from '../support/process-client.ts';
import { waitFor } from '../support/wait.ts';

const box = '/v1/sandboxes/box';

let daemon: TestDaemon;
let api: ApiClient;
let unread: Awaited<ReturnType<typeof inputThatNobodyReads>>;

before(async () => {
  daemon = await TestDaemon.start();
  api = new ApiClient(daemon);
  await api.post('/cgi-bin/api/sandboxes', { id: 'box', layers: '000-base-test' });
  unread = await inputThatNobodyReads();
});

after(() => daemon[Symbol.asyncDispose]());

async function start(body: object): Promise<ProcessInfo> {
  const { status, json, text } = await api.post(`${box}/processes`, body);
  assert.equal(status, 201, text);
  return json;
}

function residentKib(): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]);
}

const at = (process: number | string, rest = ''): string => `${box}/processes/${process}${rest}`;
const wait = (process: number, query = ''): Promise<ApiAnswer> => api.get(at(process, `/wait${query}`));

test('a process is started, listed, found by number and tag, and its end is kept', async () => {
  const one = await start({ shell: 'cat; exit 4', stdin: true, tag: 'a b/ü' });
  assert.deepEqual([one.state, one.tag, one.stdin, one.exit_code], ['running', 'a b/ü', 'open', null]);
  assert.ok((one.pid ?? 0) > 1);
  const tagged = `tag:${encodeURIComponent('a b/ü')}`;
  assert.equal((await api.get(at(tagged))).json.process, one.process);
  const query = `?state=running&tag=${encodeURIComponent('a b/ü')}`;
  const { json: list } = await api.get(`${box}/processes${query}`);
  assert.deepEqual([list.items.length, list.items[0].process, list.next], [1, one.process, null]);
  assert.equal((await api.post(at(tagged, '/stdin?eof=true'))).status, 200);
  const { json } = await wait(one.process);
  assert.deepEqual([json.process.exit_code, json.process.state, json.process.pid], [4, 'ended', null]);
  assert.deepEqual((await api.get(at(one.process))).json, json.process);
  assert.equal((await api.get(`${box}/processes${query}`)).json.items.length, 0);
  const two = await start({ shell: 'sleep 100', tag: 'a b/ü' });
  assert.equal((await api.get(at(tagged))).json.process, two.process);
  assert.equal((await api.post(at(two.process, '/signal'), { signal: 'kill' })).status, 204);
  assert.deepEqual((await wait(two.process)).json.process.signal, 9);
});

test('a page ends early where commands are long, and the list goes on behind it', async () => {
  const argv = ['true', 'x'.repeat(200_000)];
  const asked: number[] = [];
  for (let count = 0; count < 16; count += 1) asked.push((await start({ argv })).process);
  const seen: number[] = [];
  for (let cursor = String((asked[0] ?? 0) - 1); cursor !== 'null'; ) {
    const { json, text } = await api.get(`${box}/processes?limit=1000&cursor=${cursor}`);
    assert.ok(text.length < 1_500_000, `${json.items.length} in ${text.length} characters`);
    seen.push(...json.items.map(({ process }: ProcessInfo) => process));
    cursor = String(json.next);
  }
  assert.deepEqual(seen, asked);
});

test('a list goes on where a page ended, and shows what others started', async () => {
  for (const word of ['one', 'two', 'three']) await start({ argv: ['echo', word] });
  await api.post('/cgi-bin/api/sandboxes/box/exec', { cmd: 'true' });
  const seen: number[] = [];
  let cursor = '';
  for (;;) {
    const { json } = await api.get(`${box}/processes?limit=2${cursor}`);
    seen.push(...json.items.map(({ process }: ProcessInfo) => process));
    if (json.next === null) break;
    cursor = `&cursor=${json.next}`;
  }
  assert.deepEqual(
    seen,
    Array.from(seen, (_, index) => index + 1),
  );
  const last = seen.at(-1) ?? 0;
  assert.deepEqual((await api.get(at(last))).json.user, null);
  assert.equal((await api.get(at(last, '/output'))).json.code, 'output_not_kept');
  assert.equal((await api.get(at(99_999))).json.code, 'process_not_found');
  assert.equal((await api.get(at('tag:none'))).json.code, 'process_not_found');
  assert.equal((await api.get(at('none'))).json.code, 'invalid_request');
});

for (const format of ['sse', 'ndjson'] as const satisfies readonly Format[]) {
  test(`a build whose ${format} client is cut ten times is followed byte for byte`, async () => {
    const line = '[ $((i%100)) != 0 ] || sleep 0.02; echo "line $i é漢🙂"; echo "err $i" >&2; i=$((i+1))';
    const shell = `i=0; while [ $i -lt 3000 ]; do ${line}; done; exit 7`;
    const { process } = await start({ shell });
    const open = (from: number) => follow(daemon, at(process, '/output'), { format, after: from });
    const got = await gather(open, { cuts: 10, cutBytes: 3_000 });
    assert.equal(got.cuts, 10);
    const lines = Array.from({ length: 3_000 }, (_, i) => i);
    assert.equal(got.stdout.toString(), lines.map((i) => `line ${i} é漢🙂\n`).join(''));
    assert.equal(got.stderr.toString(), lines.map((i) => `err ${i}\n`).join(''));
    assert.deepEqual([got.gapBytes, got.exit?.process.exit_code], [0, 7]);
    assert.equal(got.seq, got.stdout.length + got.stderr.length);
  });
}

test('output resumes behind any byte, also in the middle of a character', async () => {
  const { process } = await start({ argv: ['printf', 'aé漢🙂z'] });
  await wait(process);
  const whole = Buffer.from('aé漢🙂z');
  for (let from = 0; from <= whole.length; from += 1) {
    const { stdout, seq } = await gather((last) =>
      follow(daemon, at(process, '/output'), { format: 'ndjson', after: Math.max(from, last) }),
    );
    assert.deepEqual([stdout.toString('hex'), seq], [whole.subarray(from).toString('hex'), whole.length]);
  }
});

test('a character that a process writes in pieces is sent whole, and half of one is sent after a moment', async () => {
  // The rest of a character may come late on a busy machine: of ten, one that was waited for is enough.
  const pieces = "for n in $(seq 10); do printf '\\303'; sleep 0.02; printf '\\251'; sleep 0.2; done";
  const half = "printf '\\342'; while ! [ -e /seen ]; do sleep 0.05; done; printf '\\202\\254'";
  const { process } = await start({ shell: `${pieces}; ${half}` });
  const sent: (string | undefined)[] = [];
  const got: Buffer[] = [];
  for await (const event of follow(daemon, at(process, '/output'), { format: 'ndjson' })) {
    if (event.type !== 'output') continue;
    sent.push(event.text ?? event.base64);
    const bytes = bytesOf(event);
    got.push(bytes);
    // It goes on when the half has been told.
    if (bytes.at(-1) === 0xe2) await api.post('/cgi-bin/api/sandboxes/box/exec', { cmd: 'touch /seen' });
  }
  assert.equal(Buffer.concat(got).toString(), `${'é'.repeat(10)}€`);
  assert.ok(sent.includes('é'), 'no character was waited for');
  assert.equal(sent.at(-1), 'gqw=');
});

test('hostile output arrives as it was written, and changes no frame around it', async () => {
  const shell = [
    'printf \'data: x\\n\\nid: 9999\\nevent: exit\\n\\n\\r\\n{"type":"exit"}\\n\'',
    "printf '\\033]0;title\\007\\033[2J\\000\\377\\376\\302'",
    'head -c 10000000 /dev/zero | tr "\\0" y',
  ].join('; ');
  const { process } = await start({ shell, output_bytes_max: limits.processOutputBytesMax });
  const { json } = await wait(process);
  assert.equal(json.process.stdout_bytes, 10_000_067);
  for (const format of ['sse', 'ndjson'] as const) {
    const got = await gather((from) => follow(daemon, at(process, '/output'), { format, after: from }));
    assert.equal(got.gapBytes + got.stdout.length, 10_000_067);
    assert.ok(got.stdout.length >= limits.processOutputBytesMax);
    assert.ok(got.stdout.every((byte) => byte === 0x79));
  }
  const { process: small } = await start({ shell: shell.split('; ').slice(0, 2).join('; ') });
  await wait(small);
  const hostile = await gather((from) =>
    follow(daemon, at(small, '/output'), { format: 'sse', after: from }),
  );
  assert.equal(
    hostile.stdout.toString('latin1'),
    'data: x\n\nid: 9999\nevent: exit\n\n\r\n{"type":"exit"}\n\x1b]0;title\x07\x1b[2J\x00\xff\xfe\xc2',
  );
});

test('what is kept is the end or the beginning, and what is not is told by its bytes', async () => {
  const shell = 'seq 1 50000';
  const tail = await start({ shell, output_bytes_max: 1_000 });
  const head = await start({ shell, output_bytes_max: 1_000, keep: 'head' });
  const whole = Array.from({ length: 50_000 }, (_, i) => `${i + 1}\n`).join('');
  for (const { process } of [tail, head]) await wait(process);
  const of = async (process: number) =>
    await gather((from) => follow(daemon, at(process, '/output'), { format: 'sse', after: from }));
  const end = await of(tail.process);
  assert.ok(end.stdout.length >= 1_000 && whole.endsWith(end.stdout.toString()));
  assert.equal(end.gapBytes, whole.length - end.stdout.length);
  const begin = await of(head.process);
  assert.deepEqual([begin.stdout.toString(), begin.gapBytes], [whole.slice(0, 1_000), whole.length - 1_000]);
});

test('one stream, only what is there, and the start’s own answer are given where they are asked for', async () => {
  const { process } = await start({ shell: 'echo out; echo err >&2; sleep 100' });
  await wait(process, '?for=log&text=err');
  const { text } = await api.get(at(process, '/output?follow=false&streams=stderr&format=ndjson'));
  const events = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    events.map(({ type, text: said }) => said ?? type),
    ['process', 'err\n'],
  );
  await api.post(at(process, '/signal'), { signal: 15 });
  const response = await fetch(`${daemon.url}${box}/processes`, {
    method: 'POST',
    headers: { accept: 'application/x-ndjson', 'content-type': 'application/json' },
    body: JSON.stringify({ argv: ['echo', 'at once'] }),
  });
  assert.equal(response.status, 201);
  assert.ok(response.body !== null);
  const types: string[] = [];
  for await (const event of parsed(response.body, 'ndjson')) {
    types.push(event.type === 'output' ? bytesOf(event).toString() : event.type);
  }
  assert.deepEqual(types, ['process', 'at once\n', 'exit']);
});

test('a reader ten times slower than the writer holds up nobody and is told what it missed', {
  skip: isOnVms ? 'a microVM that is emulated is the slower one' : false,
}, async () => {
  const bytes = 30_000_000;
  const { process } = await start({ shell: `head -c ${bytes} /dev/zero` });
  const beganMs = performance.now();
  const before = residentKib();
  let most = before;
  let seen = 0;
  let gaps = 0;
  let largest = 0;
  for await (const event of follow(daemon, at(process, '/output'), { format: 'ndjson' })) {
    if (event.type === 'gap') gaps += event.bytes;
    if (event.type !== 'output') continue;
    const { length } = bytesOf(event);
    seen += length;
    largest = Math.max(largest, length);
    most = Math.max(most, residentKib());
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const { json } = await api.get(at(process));
  assert.equal(seen + gaps, bytes);
  assert.ok(gaps > 0, 'it was slower than the store moves on');
  assert.ok(largest <= limits.processReadBytes);
  assert.ok(most - before < 65_536, `the daemon grew by ${most - before} KiB`);
  const writerMs = json.duration_ms;
  const readerMs = performance.now() - beganMs;
  assert.ok(writerMs * 1.2 < readerMs, `the process took ${writerMs} ms, its reader ${readerMs} ms`);
});

test('a process waits for the one reader that asked for it', async () => {
  const bytes = 3_000_000;
  const { process } = await start({ shell: `head -c ${bytes} /dev/zero; sleep 0.2` });
  const got = await gather((from) => {
    const open = follow(daemon, at(process, '/output?stall=true'), { format: 'ndjson', after: from });
    return (async function* () {
      for await (const event of open) {
        yield event;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })();
  });
  assert.deepEqual([got.gapBytes, got.stdout.length], [0, bytes]);
});

test('input arrives whole and in order from many requests, and is refused where none is taken', async () => {
  const { process } = await start({ shell: 'cat', stdin: true });
  const piece = Buffer.alloc(300_000, 'squash\n');
  for (let i = 0; i < 5; i += 1) {
    const { json } = await api.send('POST', at(process, '/stdin'), { text: piece });
    assert.deepEqual(json, { bytes: piece.length });
  }
  assert.deepEqual((await api.send('POST', at(process, '/stdin?eof=true'), { text: 'end' })).json, {
    bytes: 3,
  });
  const { json } = await wait(process);
  assert.deepEqual([json.process.stdout_bytes, json.process.stdin], [5 * piece.length + 3, 'ended']);
  assert.equal((await api.send('POST', at(process, '/stdin'), { text: 'x' })).json.code, 'process_ended');
  const deaf = await start({ shell: 'sleep 100' });
  assert.equal((await api.send('POST', at(deaf.process, '/stdin'), { text: 'x' })).json.code, 'stdin_closed');
  await api.post(at(deaf.process, '/signal'), { signal: 'SIGKILL' });
  const closed = await start({ shell: 'sleep 100', stdin: true });
  await api.post(at(closed.process, '/stdin?eof=true'));
  assert.equal(
    (await api.send('POST', at(closed.process, '/stdin'), { text: 'x' })).json.code,
    'stdin_closed',
  );
  await api.post(at(closed.process, '/signal'), { signal: 'SIGKILL' });
  assert.equal((await api.post(at(closed.process, '/signal'), { signal: 'NONE' })).status, 400);
});

/** In a sandbox of its own; its answer takes ten seconds, in which the other tests run. */
async function inputThatNobodyReads() {
  await api.post('/cgi-bin/api/sandboxes', { id: 'deaf', layers: '000-base-test' });
  const shell = 'while ! [ -e /read ]; do sleep 0.05; done; wc -c';
  const { process } = (await api.post('/v1/sandboxes/deaf/processes', { shell, stdin: true })).json;
  const path = `/v1/sandboxes/deaf/processes/${process}`;
  return { path, answer: api.send('POST', `${path}/stdin`, { text: Buffer.alloc(500_000) }) };
}

test('a process that does not read its input is told of, and what was taken reaches it later', async () => {
  const { path, answer } = unread;
  const { status, json } = await answer;
  assert.deepEqual([status, json.code], [503, 'stdin_blocked']);
  const taken = Number(/(\d+) bytes/.exec(json.detail)?.[1]);
  assert.ok(taken > 65_536 && taken < 400_000, json.detail);
  await api.post('/v1/sandboxes/deaf/exec', { shell: 'touch /read' });
  assert.equal((await api.post(`${path}/stdin?eof=true`)).status, 200);
  await api.get(`${path}/wait`);
  const got = await gather((from) => follow(daemon, `${path}/output`, { format: 'sse', after: from }));
  assert.equal(Number(got.stdout.toString()), taken);
});

test('a terminal has its size, takes input and ^D, and its stream is called pty', async () => {
  const { process } = await start({
    shell: 'stty size; read line; stty size; echo "got $line $TERM"; cat >/dev/null; echo bye',
    pty: { rows: 30, columns: 100, term: 'dumb' },
  });
  await wait(process, '?for=log&text=30%20100');
  assert.equal((await api.post(at(process, '/resize'), { rows: 40, columns: 120 })).status, 204);
  await api.send('POST', at(process, '/stdin'), { text: 'word\n' });
  await wait(process, '?for=log&pattern=got*dumb');
  await api.post(at(process, '/stdin?eof=true'));
  await wait(process);
  let text = '';
  for await (const event of follow(daemon, at(process, '/output'), { format: 'sse' })) {
    if (event.type !== 'output') continue;
    assert.equal(event.stream, 'pty');
    text += event.text;
  }
  assert.match(text, /30 100\r\n[^]*40 120\r\ngot word dumb\r\n[^]*bye\r\n/);
  const plain = await start({ shell: 'sleep 100' });
  assert.equal((await api.post(at(plain.process, '/resize'), { rows: 1, columns: 1 })).status, 400);
  await api.post(at(plain.process, '/signal'), { signal: 9 });
});

test('a wait ends with the line, the port or the exit, says when it can not come, and when time is over', async () => {
  const { process } = await start({
    shell: 'echo begun; sleep 0.2; printf "ready on 80"; sleep 0.3; echo; exit 2',
  });
  const { json: line } = await wait(process, '?for=log&pattern=ready*80');
  assert.deepEqual([line.line, line.seq, line.process.state], ['ready on 80', 17, 'running']);
  assert.equal((await wait(process, '?for=log&text=begun')).json.line, 'begun');
  assert.equal((await wait(process, '?for=log&text=begun&after=6')).json.code, 'process_ended');
  assert.equal((await wait(process, '?for=log&text=never')).json.code, 'process_ended');
  assert.equal((await wait(process)).json.process.exit_code, 2);
  const late = await start({ shell: 'sleep 100' });
  const { status, json } = await wait(late.process, '?timeout_ms=100');
  assert.deepEqual([status, json.code], [504, 'wait_timeout']);
  assert.equal((await wait(late.process, '?for=port&port=4321&timeout_ms=100')).json.code, 'wait_timeout');
  await api.post(at(late.process, '/signal'), { signal: 'KILL' });
  assert.equal((await wait(late.process, '?for=port&port=4321')).json.code, 'process_ended');
  for (const query of ['?for=log', '?for=log&text=a&pattern=b', '?for=port', '?text=a', '?for=exit&port=1']) {
    assert.equal((await wait(late.process, query)).json.code, 'invalid_request', query);
  }
});

test('a follower of a removed sandbox is told so', async () => {
  await api.post('/cgi-bin/api/sandboxes', { id: 'gone', layers: '000-base-test' });
  const { json } = await api.post('/v1/sandboxes/gone/processes', { shell: 'echo a; sleep 1000' });
  const seen: string[] = [];
  for await (const event of follow(daemon, `/v1/sandboxes/gone/processes/${json.process}/output`, {
    format: 'ndjson',
  })) {
    seen.push(event.type);
    if (event.type === 'output') await api.delete('/cgi-bin/api/sandboxes/gone');
  }
  assert.deepEqual(seen.slice(0, 2), ['process', 'output']);
  assert.ok(['exit', 'error'].includes(seen[2] ?? ''), seen.join(' '));
});

test('a start with a key runs once', async () => {
  const body = { shell: 'echo x >> /started; sleep 100' };
  const headers = { 'idempotency-key': 'start' };
  const ask = (): Promise<ApiAnswer> => api.send('POST', `${box}/processes`, { body, headers });
  const answers = await Promise.all([ask(), ask(), ask()]);
  assert.equal(new Set(answers.map(({ json }) => json.process)).size, 1);
  const { status } = await api.send('POST', `${box}/exec`, { body: { shell: 'true' }, headers });
  assert.equal(status, 422);
  await api.post(at(answers[0]?.json.process, '/signal'), { signal: 'KILL' });
});

test('200 processes run at once in one sandbox, and each one’s output is its own', async () => {
  // They wait for a line each: two hundred that look again each second would use up what PID 1 needs to start the rest.
  await api.post(`${box}/exec`, { shell: 'mkfifo /all' });
  const started = await Promise.all(
    Array.from({ length: 200 }, (_, i) =>
      start({ shell: `echo begun ${i}; read line </all; echo ended ${i}` }),
    ),
  );
  await waitFor(
    'all to have begun',
    async () => {
      const { json } = await api.get(`${box}/processes?state=running&limit=1000`);
      return json.items.length === 200 && json.items.every((each: ProcessInfo) => each.stdout_bytes > 0);
    },
    60_000,
  );
  // Its end stays open for who comes late.
  const { process: writer } = await start({ shell: '{ yes | head -n 200; sleep 60; } >/all' });
  for (const [i, { process }] of started.entries()) {
    const got = await gather((from) =>
      follow(daemon, at(process, '/output'), { format: 'ndjson', after: from }),
    );
    assert.equal(got.stdout.toString(), `begun ${i}\nended ${i}\n`);
  }
  await api.post(at(writer, '/signal'), { signal: 'KILL' });
});
