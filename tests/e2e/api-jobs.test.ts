/** Background jobs and the native exec stream on a real daemon. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { type ExecEvent, execEventSchema } from '@squash/contract/exec';
import { WebSocket } from 'ws';
import { ApiClient } from '../support/api-client.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const box = '/cgi-bin/api/sandboxes/box';

let daemon: TestDaemon;
let api: ApiClient;

before(async () => {
  daemon = await TestDaemon.start();
  api = new ApiClient(daemon);
  await api.post('/cgi-bin/api/sandboxes', { id: 'box', layers: '000-base-test' });
});

after(() => daemon[Symbol.asyncDispose]());

async function ended(job: number): Promise<void> {
  await waitFor(
    'the job to end',
    async () => (await api.get(`${box}/jobs/${job}`)).json.status !== 'running',
  );
}

interface Line {
  readonly id: number;
  readonly data: string;
}

/** Events of a whole stream; `done` apart. */
function events(text: string): { readonly lines: readonly Line[]; readonly done: string | undefined } {
  const lines: Line[] = [];
  let done: string | undefined;
  for (const block of text.split('\n\n').filter((each) => each !== '' && !each.startsWith(':'))) {
    const fields = block
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]);
    const of = (name: string): string =>
      fields
        .filter(([key]) => key === name)
        .map(([, value]) => value)
        .join('\n');
    if (of('event') === 'done') done = of('data');
    else lines.push({ id: Number(of('id')), data: of('data') });
  }
  return { lines, done };
}

test('a job runs in the background and ends with its exit code', async () => {
  const { status, json } = await api.post(`${box}/exec-bg`, { cmd: 'echo one; echo; echo two >&2; exit 5' });
  assert.equal(status, 200);
  assert.equal(json.status, 'running');
  assert.deepEqual([json.cmd, json.workdir], ['echo one; echo; echo two >&2; exit 5', '/']);
  await ended(json.job_id);
  const { json: job } = await api.get(`${box}/jobs/${json.job_id}`);
  assert.deepEqual([job.status, job.exit_code, job.reason], ['done', 5, 'exited']);
  const log = events((await api.get(`${box}/jobs/${json.job_id}/logs`)).text);
  assert.deepEqual(log.lines.map(({ data }) => data).sort(), ['', 'one', 'two']);
  assert.equal(log.done, '{"exit_code":5}');
  const { json: all } = await api.get(`${box}/jobs`);
  assert.ok(all.some(({ job_id }: { job_id: number }) => job_id === json.job_id));
});

test('a job’s log resumes behind any line, and an unterminated last line is in it', async () => {
  const { json } = await api.post(`${box}/exec-bg`, {
    cmd: 'for i in 1 2 3 4 5; do echo l$i; done; printf last',
  });
  await ended(json.job_id);
  const path = `${box}/jobs/${json.job_id}/logs`;
  const whole = events((await api.get(path)).text).lines;
  assert.deepEqual(
    whole.map(({ data }) => data),
    ['l1', 'l2', 'l3', 'l4', 'l5', 'last'],
  );
  for (const { id } of whole) {
    const rest = whole.filter((line) => line.id > id);
    assert.deepEqual(events((await api.get(`${path}?after=${id}`)).text).lines, rest);
    const headers = { 'last-event-id': String(id) };
    assert.deepEqual(events((await api.send('GET', path, { headers })).text).lines, rest);
  }
});

test('a job’s log follows a running job', async () => {
  const { json } = await api.post(`${box}/exec-bg`, {
    cmd: 'echo begun; while ! [ -e /go ]; do sleep 0.05; done; echo end',
  });
  const following = api.get(`${box}/jobs/${json.job_id}/logs`);
  await api.post(`${box}/exec`, { cmd: 'touch /go' });
  const log = events((await following).text);
  assert.deepEqual(
    log.lines.map(({ data }) => data),
    ['begun', 'end'],
  );
  assert.equal(log.done, '{"exit_code":0}');
});

test('a follower gets each line when it is written, as long as lines come one by one', {
  skip: isOnVms ? 'a microVM has a clock of hundredths of its own' : false,
}, async () => {
  // The sandbox's clock of hundredths is the host's.
  const cmd = 'sleep 0.2; for i in $(seq 20); do read at rest </proc/uptime; echo $at; sleep 0.1; done';
  const { json } = await api.post(`${box}/exec-bg`, { cmd });
  const { body } = await fetch(`${daemon.url}${box}/jobs/${json.job_id}/logs`);
  assert.ok(body !== null);
  const lateS: number[] = [];
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const [now = ''] = readFileSync('/proc/uptime', 'utf8').split(' ');
    for (const [, at] of piece.matchAll(/^data: (\d+\.\d+)$/gm)) lateS.push(Number(now) - Number(at));
  }
  assert.equal(lateS.length, 20);
  // A wait of ours would hold each line for as long. What other programs on the processors hold up is not every line.
  const [soon = 1] = lateS.sort((one, other) => one - other).slice(4);
  assert.ok(soon < 0.03, `three quarters of the lines are more than ${soon} s late`);
});

test('DELETE ends a job, is idempotent, and the job says that it was killed', async () => {
  const { json } = await api.post(`${box}/exec-bg`, { cmd: 'sleep 1000' });
  assert.equal((await api.delete(`${box}/jobs/${json.job_id}`)).status, 204);
  const { json: job } = await api.get(`${box}/jobs/${json.job_id}`);
  assert.deepEqual([job.status, job.reason], ['killed', 'killed']);
  assert.notEqual(job.exit_code, 0);
  assert.equal((await api.delete(`${box}/jobs/${json.job_id}`)).status, 204);
  const missing = await api.get(`${box}/jobs/99999`);
  assert.deepEqual([missing.status, missing.json.error], [404, 'job not found: 99999']);
});

test('a number that belongs to an exec is no job', async () => {
  const { json } = await api.post(`${box}/exec`, { cmd: 'true' });
  assert.equal((await api.get(`${box}/jobs/${json.seq}`)).status, 404);
  assert.equal((await api.delete(`${box}/jobs/${json.seq}`)).status, 404);
});

class Stream {
  readonly socket: WebSocket;
  readonly told: ExecEvent[] = [];
  out = '';
  err = '';
  code = 0;
  readonly closed: Promise<unknown>;

  constructor(start: object) {
    this.socket = new WebSocket(`ws://127.0.0.1:${daemon.port}/v1/sandboxes/box/exec`, 'squash.exec.v1');
    this.socket.on('open', () => this.socket.send(JSON.stringify({ type: 'start', ...start })));
    this.socket.on('message', (data: Buffer, isBinary: boolean) => this.#take(data, isBinary));
    this.closed = once(this.socket, 'close').then(([code]) => (this.code = Number(code)));
  }

  #take(data: Buffer, isBinary: boolean): void {
    if (!isBinary) {
      this.told.push(execEventSchema.parse(JSON.parse(data.toString())));
      return;
    }
    if (data[0] === 1) this.out += data.subarray(1).toString();
    else this.err += data.subarray(1).toString();
  }

  get exit(): Extract<ExecEvent, { type: 'exit' }> | undefined {
    return this.told.find((event) => event.type === 'exit');
  }
}

test('exec stream: separate streams, exact exit, and a record in the log', async () => {
  const stream = new Stream({ argv: ['sh', '-c', 'echo out; echo err >&2; exit 9'] });
  await stream.closed;
  assert.deepEqual(
    [stream.out, stream.err, stream.exit?.exit_code, stream.code],
    ['out\n', 'err\n', 9, 1000],
  );
  const [started] = stream.told;
  assert.equal(started?.type, 'started');
  const seq = started?.type === 'started' ? started.seq : 0;
  const { json } = await api.get(`${box}/logs?after=${seq - 1}&limit=1`);
  assert.deepEqual([json[0].seq, json[0].stdout], [seq, 'out\n']);
});

test('exec stream: stdin to its end, binary and whole', async () => {
  const stream = new Stream({ argv: ['sha256sum'], stdin: true });
  await waitFor('the command to start', () => stream.told.length > 0);
  const data = Buffer.alloc(1_000_000, 'binary\0\xff', 'latin1');
  for (let offset = 0; offset < data.length; offset += 65_536)
    stream.socket.send(data.subarray(offset, offset + 65_536));
  stream.socket.send('{"type":"stdin_eof"}');
  await stream.closed;
  const { createHash } = await import('node:crypto');
  assert.equal(stream.out.slice(0, 64), createHash('sha256').update(data).digest('hex'));
});

test('exec stream: a terminal has its size, and follows resizing', async () => {
  const stream = new Stream({
    argv: ['sh', '-c', 'stty size; read x; stty size; tty >/dev/null && echo terminal'],
    tty: { rows: 10, columns: 33 },
    stdin: true,
  });
  await waitFor('the first size', () => stream.out.includes('10 33'));
  stream.socket.send('{"type":"resize","rows":50,"columns":132}');
  stream.socket.send(Buffer.from('\n'));
  await stream.closed;
  assert.match(stream.out, /50 132/);
  assert.match(stream.out, /terminal/);
});

test('exec stream: signals, timeouts and commands that can not start', async () => {
  const signalled = new Stream({ argv: ['sleep', '1000'] });
  await waitFor('the command to start', () => signalled.told.length > 0);
  signalled.socket.send('{"type":"signal","signal":15}');
  await signalled.closed;
  assert.deepEqual([signalled.exit?.exit_code, signalled.exit?.signal], [143, 15]);
  const late = new Stream({ argv: ['sleep', '1000'], timeout_ms: 50 });
  await late.closed;
  assert.deepEqual([late.exit?.exit_code, late.exit?.timed_out], [124, true]);
  const missing = new Stream({ argv: ['/no/such/program'] });
  await missing.closed;
  const [told] = missing.told.slice(-1);
  assert.ok(
    told?.type === 'error' || (told?.type === 'exit' && told.exit_code === 127),
    JSON.stringify(told),
  );
});

test('exec stream: argv and environment arrive up to the limit, and beyond it are refused', async () => {
  for (const bytes of [100_000, 131_000]) {
    const fits = new Stream({
      argv: ['sh', '-c', 'echo ${#1} ${#BIG}', 'sh', 'x'.repeat(bytes)],
      env: { BIG: 'y'.repeat(90_000) },
    });
    await fits.closed;
    assert.equal(fits.out, `${bytes} 90000\n`, JSON.stringify(fits.told));
  }
  for (const argv of [
    ['true', 'x'.repeat(229_376)],
    ['true', ...Array.from({ length: 4_096 }, () => 'y')],
    ['a\0b'],
    [''],
  ]) {
    const refused = new Stream({ argv });
    await refused.closed;
    const last = refused.told.at(-1);
    assert.ok(
      last?.type === 'error' || (last?.type === 'exit' && last.exit_code >= 126),
      JSON.stringify(last),
    );
    assert.notEqual(last.type === 'error' ? last.code : '', 'internal');
  }
});

test('exec stream: a client that goes away ends its command, unless detached', async () => {
  const running = async (): Promise<string> =>
    (await api.post(`${box}/exec`, { cmd: "ps -o args | grep '[s]leep 12'; true" })).json.stdout;
  const left = new Stream({ argv: ['sleep', '1234'] });
  const kept = new Stream({ argv: ['sleep', '1235'], detach: true });
  // Has no input, and its client ends it all the same.
  const ended = new Stream({ argv: ['sleep', '1236'] });
  await waitFor('all to start', () => [left, kept, ended].every(({ told }) => told.length > 0));
  left.socket.terminate();
  ended.socket.send('{"type":"stdin_eof"}', () => ended.socket.terminate());
  kept.socket.terminate();
  await waitFor('the commands to end', async () => !/sleep 123[46]/.test(await running()));
  assert.match(await running(), /sleep 1235/);
});

test('exec stream: a client that does not read stalls the command, and gets everything later', async () => {
  const bytes = 32 * 1_048_576;
  const stream = new Stream({ argv: ['sh', '-c', `head -c ${bytes} /dev/zero; echo done > /written`] });
  await waitFor('the command to start', () => stream.told.length > 0);
  stream.socket.pause();
  const { json } = await api.post(`${box}/exec`, { cmd: 'sleep 1; cat /written 2>/dev/null; true' });
  assert.equal(json.stdout, '', 'the command went on without a reader');
  stream.socket.resume();
  await stream.closed;
  assert.equal(stream.out.length, bytes);
  assert.equal(stream.exit?.stdout_bytes, bytes);
});
