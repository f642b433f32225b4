/**
 * Commands that meet the removal of their sandbox, in many orders: each gets an answer with a code, or a record that says
 * the sandbox ended it. None is a fault, and none waits for ever.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type RawData, WebSocket } from 'ws';
import { type ApiAnswer, ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { patience } from '../support/wait.ts';
import { boxPath, sandboxesPath } from './model.ts';

/** Ten times what a removal takes when the machine is busy. */
const answerMsMax = 20_000 * patience;
const gone = 'sandbox_not_found';

/** How one request ended: a code, or the reason that the command's record says. */
type Ending = string;

function endingOf(answer: ApiAnswer): Ending {
  const { status, json, text } = answer;
  if (status === 200 && 'reason' in json) return json.reason as string;
  if (status === 200) return 'ok';
  assert.equal(typeof json?.code, 'string', `${status} ${text}`);
  return json.code as string;
}

async function streamed(daemon: TestDaemon, id: string): Promise<Ending> {
  const socket = new WebSocket(
    `${daemon.url.replace('http', 'ws')}/v1/sandboxes/${id}/exec`,
    'squash.exec.v1',
  );
  let ending = 'cut';
  socket.on('message', (data: RawData, isBinary: boolean) => {
    if (isBinary) return;
    const event = JSON.parse((data as Buffer).toString()) as Record<string, string>;
    if (event['type'] === 'exit') ending = event['reason'] ?? '';
    if (event['type'] === 'error') ending = event['code'] ?? '';
  });
  const refused = once(socket, 'unexpected-response').then(([, response]) => {
    response.resume();
    ending = response.statusCode === 404 ? gone : `status ${response.statusCode}`;
    socket.terminate();
  });
  socket.on('error', () => undefined);
  socket.on('open', () => socket.send(JSON.stringify({ type: 'start', argv: ['/bin/sh', '-c', 'yes'] })));
  await Promise.race([once(socket, 'close'), refused]);
  return ending;
}

/** A job, and whoever follows its log: the stream ends by itself, with `done` where it began. */
async function followed(api: ApiClient, id: string): Promise<Ending> {
  const started = await api.post(boxPath(id, '/exec-bg'), { cmd: 'yes | head -c 300000; sleep 60' });
  if (started.status !== 200) return endingOf(started);
  const log = await api.get(boxPath(id, `/jobs/${started.json.job_id}/logs`));
  if (log.status !== 200) return endingOf(log);
  return /event: done\ndata: \{"exit_code":(137|null)\}\n\n$/.test(log.text)
    ? 'destroyed'
    : `no done: ${log.text.slice(-200)}`;
}

async function within<T>(what: string, ending: Promise<T>): Promise<T> {
  const late = delay(answerMsMax, undefined, { ref: false }).then(() =>
    assert.fail(`${what}: no answer within ${answerMsMax} ms`),
  );
  return await Promise.race([ending, late]);
}

/** Everything that runs commands, begun at once, and the removal `afterMs` later. */
async function round(daemon: TestDaemon, id: string, afterMs: number): Promise<readonly Ending[]> {
  const api = new ApiClient(daemon);
  const exec = (cmd: string) => api.post(boxPath(id, '/exec'), { cmd }).then(endingOf);
  const endings = [
    exec('true'),
    exec('yes'),
    exec('sleep 60'),
    exec('exec 3>&1; (sleep 60) & kill -9 $$'),
    streamed(daemon, id),
    followed(api, id),
  ];
  const removed = delay(afterMs).then(() => api.delete(boxPath(id)));
  const later = removed.then(() => exec('true'));
  assert.equal((await within(`DELETE after ${afterMs} ms`, removed)).status, 204);
  assert.equal(await within('exec behind it', later), gone);
  return await Promise.all(endings.map((each, index) => within(`${index}, ${afterMs} ms`, each)));
}

test('commands that race with the removal of their sandbox are answered, in every order', async () => {
  await using daemon = await TestDaemon.start();
  const allowed = new Set([gone, 'destroyed', 'exited', 'signaled']);
  const seen = new Map<Ending, number>();
  // Dense where a command is on its way to PID 1, sparse behind it.
  for (let turn = 0; turn < 40; turn += 1) {
    const id = `box-${turn}`;
    const afterMs = turn < 30 ? turn / 2 : (turn - 26) * 5;
    await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
    for (const ending of await round(daemon, id, afterMs)) seen.set(ending, (seen.get(ending) ?? 0) + 1);
  }
  const wrong = [...seen].filter(([ending]) => !allowed.has(ending));
  assert.deepEqual(wrong, []);
  // Both sides of the race were met.
  assert.ok((seen.get(gone) ?? 0) > 0 && (seen.get('destroyed') ?? 0) > 0, JSON.stringify([...seen]));
  assert.doesNotMatch(daemon.output, /"request\.fault"|"upgrade\.fault"|"daemon\.fault"/);
});

test('commands that wait for a sandbox to be made are answered when it is removed instead', async () => {
  await using daemon = await TestDaemon.start();
  const api = new ApiClient(daemon);
  const allowed = new Set([gone, 'destroyed', 'exited']);
  for (let turn = 0; turn < 20; turn += 1) {
    const id = `new-${turn}`;
    const created = api.post(sandboxesPath, { id, memory_mb: 64 });
    await delay(turn);
    const execs = [1, 2, 3].map(() => api.post(boxPath(id, '/exec'), { cmd: 'true' }).then(endingOf));
    const removed = await within('DELETE', api.delete(boxPath(id)));
    assert.ok([204, 404].includes(removed.status), removed.text);
    for (const exec of execs) {
      const ending = await within('exec', exec);
      assert.ok(allowed.has(ending), ending);
    }
    assert.ok([201, 404].includes((await within('create', created)).status));
    await api.delete(boxPath(id));
  }
  assert.doesNotMatch(daemon.output, /"request\.fault"|"daemon\.fault"/);
});
