/** Clients that are attached to processes over WebSockets, tickets for pages, and refusals that a page can read. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { type ProcessEvent, processEventSchema, type ProcessInfo } from '@squash/contract/process';
import { WebSocket } from 'ws';
import { ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const box = '/v1/sandboxes/box';

let daemon: TestDaemon;
let api: ApiClient;

before(async () => {
  daemon = await TestDaemon.start();
  api = new ApiClient(daemon);
  await api.post('/cgi-bin/api/sandboxes', { id: 'box', layers: '000-base-test' });
});

after(() => daemon[Symbol.asyncDispose]());

async function start(body: object): Promise<ProcessInfo> {
  const { status, json, text } = await api.post(`${box}/processes`, body);
  assert.equal(status, 201, text);
  return json;
}

class Client {
  readonly socket: WebSocket;
  readonly told: ProcessEvent[] = [];
  readonly #parts: Record<'out' | 'err', Buffer[]> = { out: [], err: [] };
  seq: number;
  gapBytes = 0;
  code = 0;
  readonly closed: Promise<unknown>;

  constructor(process: number | string, { from = 0, stall = false } = {}) {
    const query = `?after=${from}${stall ? '&stall=true' : ''}`;
    const url = `ws://127.0.0.1:${daemon.port}${box}/processes/${process}/attach${query}`;
    this.seq = from;
    this.socket = new WebSocket(url, 'squash.process.v1');
    this.socket.on('message', (data: Buffer, isBinary: boolean) => this.#take(data, isBinary));
    this.socket.on('error', () => {
      // 'close' follows, and the test looks at what was told.
    });
    this.closed = once(this.socket, 'close').then(([code]) => (this.code = Number(code)));
  }

  send(control: object): void {
    this.socket.send(JSON.stringify(control));
  }

  get out(): Buffer {
    return Buffer.concat(this.#parts.out);
  }

  get err(): Buffer {
    return Buffer.concat(this.#parts.err);
  }

  get exit(): ProcessInfo | undefined {
    const last = this.told.at(-1);
    return last?.type === 'exit' ? last.process : undefined;
  }

  #take(data: Buffer, isBinary: boolean): void {
    if (!isBinary) {
      const event = processEventSchema.parse(JSON.parse(data.toString()));
      this.told.push(event);
      if (event.type === 'gap') {
        this.gapBytes += event.bytes;
        this.seq = event.seq;
      }
      return;
    }
    const bytes = data.subarray(9);
    const seq = Number(data.readBigUInt64BE(1));
    assert.equal(seq, this.seq + bytes.length, 'every byte is at its position');
    this.seq = seq;
    this.#parts[data[0] === 2 ? 'err' : 'out'].push(bytes);
  }
}

test('many clients are attached at once, each from its position, and all may send', async () => {
  const { process } = await start({ shell: 'echo begun; cat; echo end >&2; exit 3', stdin: true });
  await api.get(`${box}/processes/${process}/wait?for=log&text=begun`);
  const clients = [0, 3, 6].map((from) => new Client(process, { from }));
  await Promise.all(clients.map(({ socket }) => once(socket, 'open')));
  clients[0]?.socket.send(Buffer.from('one\n'));
  await waitFor('the second to see it', () => clients[1]?.out.includes('one'));
  clients[1]?.socket.send(Buffer.from('two\n'));
  await waitFor('the third to see it', () => clients[2]?.out.includes('two'));
  clients[2]?.send({ type: 'stdin_eof' });
  await Promise.all(clients.map(({ closed }) => closed));
  for (const [i, client] of clients.entries()) {
    assert.equal(client.out.toString(), 'begun\none\ntwo\n'.slice(3 * i));
    assert.deepEqual([client.err.toString(), client.code, client.exit?.exit_code], ['end\n', 1000, 3]);
    assert.equal(client.told[0]?.type, 'process');
  }
});

test('a build whose WebSocket is cut ten times is followed byte for byte', async () => {
  const line = '[ $((i%100)) != 0 ] || sleep 0.02; echo "line $i"; echo "err $i" >&2; i=$((i+1))';
  const shell = `i=0; while [ $i -lt 4000 ]; do ${line}; done`;
  const { process } = await start({ shell, tag: 'cut' });
  let [out, err, seq, cuts] = [Buffer.alloc(0), Buffer.alloc(0), 0, 0];
  for (;;) {
    const client = new Client('tag:cut', { from: seq });
    if (cuts < 10) {
      const from = seq;
      await waitFor('some of it', () => client.seq >= from + 3_000 || client.exit !== undefined);
      cuts += 1;
      client.socket.terminate();
    }
    await client.closed;
    [out, err, seq] = [Buffer.concat([out, client.out]), Buffer.concat([err, client.err]), client.seq];
    if (client.exit === undefined) continue;
    assert.equal(client.exit.process, process);
    break;
  }
  assert.equal(cuts, 10);
  const numbers = Array.from({ length: 4_000 }, (_, i) => i);
  assert.equal(out.toString(), numbers.map((i) => `line ${i}\n`).join(''));
  assert.equal(err.toString(), numbers.map((i) => `err ${i}\n`).join(''));
});

test('a client that does not read holds up neither the process nor another client; one that stalls does', async () => {
  const bytes = 25_000_000;
  const { process } = await start({ shell: `read go; head -c ${bytes} /dev/zero`, stdin: true });
  const [slow, quick] = [new Client(process), new Client(process)];
  await Promise.all([once(slow.socket, 'open'), once(quick.socket, 'open')]);
  slow.socket.pause();
  quick.socket.send(Buffer.from('\n'));
  await quick.closed;
  assert.equal(quick.exit?.exit_code, 0);
  assert.equal(quick.out.length + quick.gapBytes, bytes);
  slow.socket.resume();
  await slow.closed;
  assert.equal(slow.out.length + slow.gapBytes, bytes);
  assert.ok(slow.gapBytes > 0);
  const stalled = await start({ shell: `read go; head -c 5000000 /dev/zero`, stdin: true });
  const waiting = new Client(stalled.process, { stall: true });
  await once(waiting.socket, 'open');
  await waitFor('it to be attached', () => waiting.told.length > 0);
  waiting.socket.pause();
  waiting.socket.send(Buffer.from('\n'));
  await new Promise((resolve) => setTimeout(resolve, 500));
  const { json } = await api.get(`${box}/processes/${stalled.process}`);
  assert.deepEqual([json.state, json.stdout_bytes < 5_000_000], ['running', true]);
  waiting.socket.resume();
  await waiting.closed;
  assert.deepEqual([waiting.out.length, waiting.gapBytes], [5_000_000, 0]);
});

test('controls reach the process; what it can not take is told, and the client goes on', async () => {
  const { process } = await start({
    shell: 'trap "stty size" WINCH; echo up; while :; do sleep 0.05; done',
    pty: { rows: 10, columns: 20 },
  });
  const client = new Client(process);
  await waitFor('it to be up', () => client.out.includes('up'));
  client.send({ type: 'resize', rows: 33, columns: 44 });
  await waitFor('the new size', () => client.out.includes('33 44'));
  client.send({ type: 'signal', signal: 'SIGKILL' });
  await client.closed;
  assert.equal(client.exit?.signal, 9);
  const deaf = await start({ shell: 'sleep 100' });
  const watching = new Client(deaf.process);
  await once(watching.socket, 'open');
  watching.socket.send(Buffer.from('x'));
  await waitFor('the refusal', () => watching.told.some((event) => event.type === 'error'));
  const refusal = watching.told.find((event) => event.type === 'error');
  assert.equal(refusal?.code, 'stdin_closed');
  watching.send({ type: 'signal', signal: 15 });
  await watching.closed;
  assert.deepEqual([watching.exit?.signal, watching.code], [15, 1000]);
  const breach = new Client((await start({ shell: 'sleep 100', tag: 'breach' })).process);
  await once(breach.socket, 'open');
  breach.send({ type: 'nonsense' });
  await breach.closed;
  const last = breach.told.at(-1);
  assert.ok(last?.type === 'error' && last.code === 'invalid_request');
  await api.post(`${box}/processes/tag:breach/signal`, { signal: 'KILL' });
});

test('a client that leaves while its input waits leaves room for others', async () => {
  const { process } = await start({ shell: 'while ! [ -e /go ]; do sleep 0.05; done; wc -c', stdin: true });
  for (let i = 0; i < 20; i += 1) {
    const client = new Client(process);
    await once(client.socket, 'open');
    client.socket.send(Buffer.alloc(100_000));
    await waitFor('it to be attached', () => client.told.length > 0);
    client.socket.terminate();
    await client.closed;
  }
  await api.post(`${box}/exec`, { shell: 'touch /go' });
  await waitFor(
    'room',
    async () => (await api.post(`${box}/processes/${process}/stdin?eof=true`)).status === 200,
  );
  const { json } = await api.get(`${box}/processes/${process}/wait`);
  assert.equal(json.process.exit_code, 0);
});

interface Refused {
  readonly status: number;
  readonly code: number;
  readonly text: string;
}

async function refusedSocket(
  on: TestDaemon,
  path: string,
  { protocols, headers = {} }: { protocols: string[]; headers?: Record<string, string> },
): Promise<Refused> {
  const socket = new WebSocket(`ws://127.0.0.1:${on.port}${path}`, protocols, { headers });
  let [status, text] = [101, ''];
  socket.on('message', (data: Buffer) => (text += data.toString()));
  socket.on('unexpected-response', (_request, response) => {
    status = response.statusCode ?? 0;
    response.resume();
    socket.terminate();
  });
  socket.on('error', () => {
    // 'close' follows.
  });
  // Not by `once`, which an error ends.
  const { promise, resolve } = Promise.withResolvers<number>();
  socket.on('close', resolve);
  const code = await promise;
  return { status, code, text };
}

test('a client that asks for it reads why its WebSocket is refused; a foreign page never does', async () => {
  const protocols = ['squash.process.v1', 'squash.errors.v1'];
  const path = `${box}/processes/9999/attach`;
  const readable = await refusedSocket(daemon, path, { protocols });
  assert.deepEqual([readable.status, readable.code], [101, 4404]);
  const said = JSON.parse(readable.text);
  assert.deepEqual([said.type, said.code], ['error', 'process_not_found']);
  assert.ok(said.message.length > 0 && said.remedy.length > 0);
  assert.equal((await refusedSocket(daemon, path, { protocols: ['squash.process.v1'] })).status, 404);
  const foreign = { origin: 'http://evil.test' };
  assert.equal((await refusedSocket(daemon, path, { protocols, headers: foreign })).status, 403);
  const host = { host: 'evil.test' };
  assert.equal((await refusedSocket(daemon, path, { protocols, headers: host })).status, 403);
  const wrong = await refusedSocket(daemon, `${box}/exec`, { protocols: ['squash.errors.v1'] });
  assert.deepEqual([wrong.code, JSON.parse(wrong.text).code], [4400, 'invalid_request']);
});

test('a ticket opens one stream or WebSocket without a header, once', async () => {
  await using guarded = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: 'a-token' } });
  const client = new ApiClient(guarded);
  const headers = { authorization: 'Bearer a-token' };
  await client.send('POST', '/cgi-bin/api/sandboxes', {
    headers,
    body: { id: 'box', layers: '000-base-test' },
  });
  const started = await client.send('POST', `${box}/processes`, {
    headers,
    body: { argv: ['echo', 'hello'] },
  });
  const process = `${box}/processes/${started.json.process}`;
  const ticket = async (path: string): Promise<string> => {
    const { status, json, text } = await client.send('POST', '/v1/tickets', { headers, body: { path } });
    assert.equal(status, 201, text);
    return json.ticket;
  };
  const output = `${process}/output`;
  const first = await ticket(output);
  const told = await client.get(`${output}?ticket=${first}&format=ndjson`);
  assert.match(told.text, /"text":"hello\\n"/);
  assert.equal((await client.get(`${output}?ticket=${first}`)).status, 401);
  assert.equal((await client.get(`${output}?ticket=${await ticket(`${process}/attach`)}`)).status, 401);
  assert.equal((await client.get(output)).status, 401);
  const events = await client.get(`/v1/events?after=0&ticket=${await ticket('/v1/events')}`);
  assert.equal(events.json.items[0].type, 'sandbox.created');
  const attach = `${process}/attach`;
  const protocols = ['squash.process.v1', 'squash.errors.v1'];
  const opened = await refusedSocket(guarded, `${attach}?ticket=${await ticket(attach)}`, { protocols });
  assert.deepEqual([opened.status, opened.code], [101, 1000]);
  const again = await refusedSocket(guarded, `${attach}?ticket=none`, { protocols });
  assert.deepEqual([again.code, JSON.parse(again.text).code], [4401, 'unauthorized']);
  const foreign = { origin: 'http://evil.test' };
  const page = `${attach}?ticket=${await ticket(attach)}`;
  assert.equal((await refusedSocket(guarded, page, { protocols, headers: foreign })).status, 403);
  assert.equal((await client.send('POST', '/v1/tickets', { body: { path: output } })).status, 401);
  const key = { name: 'looks', owner: 'anon', scope: 'read' };
  const { json: made } = await client.send('POST', '/v1/keys', { headers, body: key });
  const looking = { authorization: `Bearer ${made.token}` };
  assert.equal((await client.send('GET', `${output}?follow=false`, { headers: looking })).status, 200);
  for (const path of [`${output}?stall=true`, `${process}/wait?for=port&port=80`]) {
    assert.equal((await client.send('GET', path, { headers: looking })).json.code, 'forbidden', path);
  }
  const { json: narrow } = await client.send('POST', '/v1/tickets', {
    headers: looking,
    body: { path: attach },
  });
  const asLooker = await refusedSocket(guarded, `${attach}?ticket=${narrow.ticket}`, { protocols });
  assert.deepEqual([asLooker.code, JSON.parse(asLooker.text).code], [4403, 'forbidden']);
  for (const path of ['/v1/sandboxes/box/exec?x=1', '/v1/info', `${process}/wait`, 'x']) {
    const { status, json } = await client.send('POST', '/v1/tickets', { headers, body: { path } });
    assert.deepEqual([status, json.code], [400, 'invalid_request'], path);
  }
});
