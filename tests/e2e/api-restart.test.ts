/** What clients see of a daemon that stops, dies and comes back: nothing lost, nothing twice. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const box = '/cgi-bin/api/sandboxes/box';

/** The lines of a log in order, by their event ids. */
function lines(text: string): readonly (readonly [number, string])[] {
  return [...text.matchAll(/^id: (\d+)\ndata: (.*)$/gm)].map(([, id, data = '']) => [Number(id), data]);
}

async function box1(daemon: TestDaemon): Promise<ApiClient> {
  const api = new ApiClient(daemon);
  const created = await api.post('/cgi-bin/api/sandboxes', { id: 'box', layers: '000-base-test' });
  assert.equal(created.status, 201, created.text);
  return api;
}

test('a follower whose daemon stops resumes behind its last line', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  const cmd = 'echo one; until [ -e /go ]; do sleep 0.05; done; echo two; echo three';
  const { json } = await api.post(`${box}/exec-bg`, { cmd });
  const path = `${box}/jobs/${json.job_id}/logs`;
  await waitFor('the first line', async () => {
    const response = await fetch(`${daemon.url}${path}`);
    const reader = response.body?.getReader();
    const first = await reader?.read();
    await reader?.cancel();
    return new TextDecoder().decode(first?.value).includes('one');
  });
  const following = api.get(path);
  await waitFor('the follower to be counted', async () =>
    /squash_http_streams_active 1\n/.test((await api.get('/metrics')).text),
  );
  await daemon.stop();
  const cut = (await following).text;
  assert.doesNotMatch(cut, /event: done/);
  const seen = lines(cut);
  assert.deepEqual(seen, [[1, 'one']]);
  await daemon.start();
  await api.post(`${box}/exec`, { cmd: 'touch /go' });
  const rest = await api.send('GET', path, { headers: { 'last-event-id': '1' } });
  assert.deepEqual(lines(rest.text), [
    [2, 'two'],
    [3, 'three'],
  ]);
  assert.match(rest.text, /event: done\ndata: \{"exit_code":0\}\n\n$/);
});

test('an exec in progress is answered before the daemon stops', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  const answer = api.post(`${box}/exec`, { cmd: 'touch /begun; sleep 1; echo whole' });
  await waitFor(
    'it to run',
    async () => (await api.post(`${box}/exec`, { cmd: 'test -e /begun' })).json.exit_code === 0,
  );
  await daemon.stop();
  const { status, json } = await answer;
  assert.deepEqual([status, json.stdout, json.exit_code], [200, 'whole\n', 0]);
});

test('sandboxes, log and numbers are the same after kill -9', async () => {
  await using daemon = await TestDaemon.start();
  const api = await box1(daemon);
  await api.post(`${box}/exec`, { cmd: 'echo kept > /kept' });
  const { json: before } = await api.get(box);
  const { json: log } = await api.get(`${box}/logs`);
  await daemon.kill();
  await daemon.start();
  const { json: after } = await api.get(box);
  assert.deepEqual({ ...after, upper_bytes: 0 }, { ...before, upper_bytes: 0 });
  assert.deepEqual((await api.get(`${box}/logs`)).json, log);
  const { json: record } = await api.post(`${box}/exec`, { cmd: 'cat /kept' });
  assert.deepEqual([record.seq, record.stdout], [2, 'kept\n']);
});
