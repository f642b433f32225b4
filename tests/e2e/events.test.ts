/** Events of a real daemon: each change once, in order, whoever asks, whatever is killed in between. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { EventReader } from '../support/event-reader.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const path = '/cgi-bin/api/sandboxes';

let daemon: TestDaemon;
let api: ApiClient;
before(async () => {
  daemon = await TestDaemon.start();
  api = new ApiClient(daemon);
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
});

interface Told {
  readonly id: number;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

async function toldOf(sandbox: string): Promise<readonly Told[]> {
  return ((await api.get(`/v1/events?after=0&sandbox=${sandbox}`)).json as { items: Told[] }).items;
}

const typesOf = (events: readonly Told[]): readonly string[] => events.map(({ type }) => type);

test('a sandbox’s life is told in order, and is there when the sandbox is not', async () => {
  await api.post(path, { id: 'life', owner: 'ann', layers: '000-base-test', cpu: 1, memory_mb: 64 });
  await api.post(`${path}/life/snapshot`, { label: 'one' });
  await api.post(`${path}/life/restore`, { label: 'one' });
  await api.post(`${path}/life/snapshot`, { label: 'two' });
  // The sandbox lies on the first, so its file stays; the events are the same.
  for (const label of ['one', 'two']) await api.delete(`/v1/sandboxes/life/snapshots/${label}`);
  await api.delete(`${path}/life`);
  const events = await toldOf('life');
  assert.deepEqual(
    events.map(({ type, data }) => [type, data['label'] ?? data['reason'] ?? null]),
    [
      ['sandbox.created', null],
      ['snapshot.created', 'one'],
      ['sandbox.restarted', 'layers_changed'],
      ['snapshot.created', 'two'],
      ['snapshot.removed', 'one'],
      ['snapshot.removed', 'two'],
      ['sandbox.destroyed', null],
    ],
  );
  assert.deepEqual(events[0]?.data, { cpu: 1, memory_mb: 64, max_lifetime_s: 0 });
});

test('pages and filters find what there is', async () => {
  for (const id of ['p1', 'p2']) {
    await api.post(path, { id, layers: '000-base-test' });
    await api.delete(`${path}/${id}`);
  }
  const types = 'type=sandbox.created,sandbox.destroyed';
  const found: number[] = [];
  for (let next: string | null = '0'; next !== null; ) {
    const page = (await api.get(`/v1/events?${types}&limit=1&cursor=${next}`)).json as {
      items: Told[];
      next: string | null;
    };
    found.push(...page.items.map(({ id }) => id));
    ({ next } = page);
  }
  const all = (await api.get(`/v1/events?${types}&after=0&limit=1000`)).json as { items: Told[] };
  assert.deepEqual(
    found,
    all.items.map(({ id }) => id),
  );
  const newest = (await api.get('/v1/events?limit=2')).json as { items: Told[]; next: string | null };
  assert.deepEqual([typesOf(newest.items), newest.next], [['sandbox.created', 'sandbox.destroyed'], null]);
  const last = await api.get(`/v1/events?after=${Number.MAX_SAFE_INTEGER}`);
  assert.deepEqual([last.status, last.json.items], [200, []], 'as far as the description goes');
  const tooFar = `after=${BigInt(Number.MAX_SAFE_INTEGER) + 1n}`;
  for (const query of ['type=sandbox.made', 'after=x', tooFar, 'limit=0', 'what=1', 'follow=yes']) {
    assert.equal((await api.get(`/v1/events?${query}`)).status, 400, query);
  }
});

test('a follower that is cut, by itself and by a killed daemon, resumes without a loss or a repeat', async () => {
  const seen: string[] = [];
  let last = String((await toldOf('life')).at(-1)?.id ?? 0);
  const follow = async (until: number): Promise<void> => {
    using reader = await EventReader.open(daemon, '/v1/events?follow=true&type=sandbox.created', last);
    while (seen.length < until) {
      const event = await reader.next();
      if (event === undefined) return;
      last = event.id ?? last;
      seen.push((JSON.parse(event.data ?? '') as { sandbox: string }).sandbox);
    }
  };
  seen.length = 0;
  const ids = ['f0', 'f1', 'f2', 'f3', 'f4', 'f5'];
  const expected = ['p1', 'p2', ...ids];
  for (const [at, id] of ids.entries()) {
    const following = follow(3 + at);
    await api.post(path, { id, layers: '000-base-test' });
    await following;
    if (at === 2) {
      await daemon.kill();
      await daemon.start();
    }
  }
  assert.deepEqual(seen, expected);
  for (const id of ids) await api.delete(`${path}/${id}`);
});

/** [fault point, what is asked for there, what the next daemon has told once all is settled] */
const deaths: readonly [string, (api: ApiClient, id: string) => Promise<unknown>, readonly string[]][] = [
  ['create.started', (api, id) => api.post(path, { id, layers: '000-base-test' }), []],
  ['create.committed', (api, id) => api.post(path, { id, layers: '000-base-test' }), ['sandbox.created']],
  [
    'snapshot.packed',
    async (api, id) => {
      await api.post(path, { id, layers: '000-base-test' });
      await api.post(`${path}/${id}/snapshot`, { label: 'x' });
    },
    ['sandbox.created'],
  ],
  [
    'snapshot.committed',
    async (api, id) => {
      await api.post(path, { id, layers: '000-base-test' });
      await api.post(`${path}/${id}/snapshot`, { label: 'x' });
    },
    ['sandbox.created', 'snapshot.created'],
  ],
  [
    'destroy.trashed',
    async (api, id) => {
      await api.post(path, { id, layers: '000-base-test' });
      await api.delete(`${path}/${id}`);
    },
    ['sandbox.created', 'sandbox.destroyed'],
  ],
  [
    'destroy.deleted',
    async (api, id) => {
      await api.post(path, { id, layers: '000-base-test' });
      await api.delete(`${path}/${id}`);
    },
    ['sandbox.created', 'sandbox.destroyed'],
  ],
];

for (const [point, ask, types] of deaths) {
  test(`a daemon that dies at ${point} has told what is so, once`, async () => {
    const id = point.replace('.', '-');
    await daemon.stop();
    await daemon.start({ SQUASH_FAULT_POINT: point });
    await assert.rejects(ask(api, id));
    await daemon.ended();
    await daemon.start();
    await waitFor('what was begun to end', async () => {
      const { json } = await api.get(path);
      return (json as { state: string }[]).every(({ state }) => state === 'ready');
    });
    assert.deepEqual(typesOf(await toldOf(id)), types);
    if (types.at(-1) !== 'sandbox.destroyed' && types.length > 0) await api.delete(`${path}/${id}`);
  });
}

test('the death of PID 1 is told with the restart', async () => {
  await api.post(path, { id: 'dies', layers: '000-base-test' });
  const [pidOne] = processesOf(daemon.dataDir).filter(({ command }) => command.includes('--listen-fd'));
  process.kill(pidOne?.pid ?? 0, 'SIGKILL');
  await waitFor('the restart', async () => typesOf(await toldOf('dies')).includes('sandbox.restarted'));
  await api.delete(`${path}/dies`);
  assert.deepEqual(
    (await toldOf('dies')).map(({ type, data }) => [type, data['reason'] ?? null]),
    [
      ['sandbox.created', null],
      ['sandbox.restarted', 'killed'],
      ['sandbox.destroyed', null],
    ],
  );
});
