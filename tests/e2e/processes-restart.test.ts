/** What followers and senders of processes see of a daemon that stops, dies and comes back. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import type { ProcessEvent } from '@squash/contract/process';
import { WebSocket } from 'ws';
import { ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { follow, gather } from '../support/process-client.ts';

const box = '/v1/sandboxes/box';

async function withBox(daemon: TestDaemon): Promise<ApiClient> {
  const api = new ApiClient(daemon);
  const created = await api.post('/cgi-bin/api/sandboxes', { id: 'box', layers: '000-base-test' });
  assert.equal(created.status, 201, created.text);
  return api;
}

test('a follower gets every byte once over daemons that are killed, stopped and started', async () => {
  await using daemon = await TestDaemon.start();
  const api = await withBox(daemon);
  const shell = 'i=0; while read x; do seq $((i*500)) $((i*500+499)); echo "e $i" >&2; i=$((i+1)); done';
  const { json } = await api.post(`${box}/processes`, { shell, tag: 'build', stdin: true });
  const path = `${box}/processes/tag:build/output`;
  let turns = 0;
  const open = async function* (after: number): AsyncGenerator<ProcessEvent, void, void> {
    turns += 1;
    // Each of ten connections has something new to see.
    if (turns <= 10) {
      const query = turns === 10 ? '?eof=true' : '';
      await api.send('POST', `${box}/processes/tag:build/stdin${query}`, { text: 'x\n'.repeat(6) });
    }
    // An even turn is cut by the daemon's end, an odd one by its own.
    const ended = turns % 2 === 0 && turns < 10 ? endSoon(daemon, turns) : undefined;
    try {
      yield* follow(daemon, path, { format: turns % 3 === 0 ? 'sse' : 'ndjson', after });
    } catch (error) {
      // A connection that is cut in the middle of a piece: that is what the test is about.
      if (error instanceof assert.AssertionError) throw error;
    } finally {
      await ended;
    }
  };
  const got = await gather(open, { cuts: 12, cutBytes: 4_000 });
  const lines = Array.from({ length: 30_000 }, (_, i) => `${i}\n`).join('');
  assert.equal(got.stdout.toString(), lines);
  assert.equal(got.stderr.toString(), Array.from({ length: 60 }, (_, i) => `e ${i}\n`).join(''));
  assert.deepEqual(
    [got.gapBytes, got.exit?.process.exit_code, got.exit?.process.process],
    [0, 0, json.process],
  );
  assert.ok(turns >= 10, `${turns} connections`);
});

async function endSoon(daemon: TestDaemon, turn: number): Promise<void> {
  await delay(turn * 10);
  if (turn % 4 === 0) await daemon.kill();
  else await daemon.stop();
  await daemon.start();
}

test('a daemon that stops tells attached clients so at once, and they go on at the next one', async () => {
  await using daemon = await TestDaemon.start();
  const api = await withBox(daemon);
  const { json } = await api.post(`${box}/processes`, { shell: 'echo a; read x; echo b', stdin: true });
  const attach = (after: number): WebSocket =>
    new WebSocket(
      `ws://127.0.0.1:${daemon.port}${box}/processes/${json.process}/attach?after=${after}`,
      'squash.process.v1',
    );
  const first = attach(0);
  await new Promise<void>((resolve) => {
    first.on('message', (_data, isBinary) => isBinary && resolve());
  });
  const told = new Promise<number>((resolve) => first.once('close', resolve));
  const beganMs = performance.now();
  await daemon.stop();
  assert.equal(await told, 1012);
  assert.ok(performance.now() - beganMs < 20_000, 'it did not wait for those who only follow');
  await daemon.start();
  const second = attach(2);
  const bytes: string[] = [];
  second.on('message', (data: Buffer, isBinary) => {
    if (isBinary) bytes.push(data.subarray(9).toString());
  });
  const closed = new Promise<number>((resolve) => second.once('close', resolve));
  second.on('open', () => second.send(Buffer.from('go\n')));
  assert.equal(await closed, 1000);
  assert.equal(bytes.join(''), 'b\n');
});

test('who waits for a process of a paused sandbox is told so by a daemon that has just come', async () => {
  await using daemon = await TestDaemon.start();
  const api = await withBox(daemon);
  const { json } = await api.post(`${box}/processes`, { shell: 'echo a; sleep 0.5; echo b' });
  await api.get(`${box}/processes/${json.process}/wait?for=log&text=a`);
  await api.post('/v1/sandboxes/box/pause', {});
  await daemon.kill();
  await daemon.start();
  const wait = `${box}/processes/${json.process}/wait`;
  assert.equal((await api.get(wait)).json.code, 'sandbox_paused');
  const seen: ProcessEvent[] = [];
  for await (const event of follow(daemon, `${box}/processes/${json.process}/output`, { format: 'ndjson' })) {
    seen.push(event);
  }
  assert.deepEqual(
    seen.map(({ type }) => type),
    ['process', 'output', 'error'],
  );
  assert.equal((await api.post('/v1/sandboxes/box/resume', {})).status, 200);
  assert.equal((await api.get(wait)).json.process.exit_code, 0);
});

test('input, signals and waits reach a process that an earlier daemon started', async () => {
  await using daemon = await TestDaemon.start();
  const api = await withBox(daemon);
  const open = await api.post(`${box}/processes`, { shell: 'cat', stdin: true });
  const closed = await api.post(`${box}/processes`, { shell: 'cat; echo eof; sleep 100', stdin: true });
  const stdin = (process: number, text: string, query = '') =>
    api.send('POST', `${box}/processes/${process}/stdin${query}`, { text });
  await stdin(open.json.process, 'before ');
  await stdin(closed.json.process, 'x', '?eof=true');
  await daemon.kill();
  await daemon.start();
  await stdin(open.json.process, 'after', '?eof=true');
  const { json } = await api.get(`${box}/processes/${open.json.process}/wait`);
  assert.deepEqual([json.process.exit_code, json.process.stdout_bytes], [0, 12]);
  assert.equal((await stdin(closed.json.process, 'y')).json.code, 'stdin_closed');
  const line = await api.get(`${box}/processes/${closed.json.process}/wait?for=log&text=eof`);
  assert.equal(line.json.line, 'xeof');
  assert.equal(
    (await api.post(`${box}/processes/${closed.json.process}/signal`, { signal: 'INT' })).status,
    204,
  );
  const { json: end } = await api.get(`${box}/processes/${closed.json.process}/wait`);
  assert.deepEqual([end.process.signal, end.process.reason], [2, 'signaled']);
});
