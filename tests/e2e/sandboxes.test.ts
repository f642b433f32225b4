/** `/v1/sandboxes`: found by what they were given, changed while they run, put to rest, made from one another. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Capability } from '@squash/contract/capability';
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import { ApiClient } from '../support/api-client.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf, signalAll } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const boxes = '/v1/sandboxes';
let daemon: TestDaemon;
let api: ApiClient;
before(async () => {
  daemon = await TestDaemon.start();
  api = new ApiClient(daemon);
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
});

async function create(body: object = {}): Promise<SandboxRecord> {
  const { status, json, text } = await api.post(boxes, body);
  assert.equal(status, 201, text);
  return json;
}

async function patch(id: string, body: object) {
  return await api.send('PATCH', `${boxes}/${id}`, { body });
}

async function get(id: string): Promise<SandboxRecord> {
  return (await api.get(`${boxes}/${id}`)).json;
}

/** What the command printed; it must succeed. */
async function sh(id: string, cmd: string): Promise<string> {
  const { json, text } = await api.post(`/cgi-bin/api/sandboxes/${id}/exec`, { cmd });
  assert.equal(json.exit_code, 0, text);
  return json.stdout;
}

async function destroy(...ids: readonly string[]): Promise<void> {
  for (const id of ids) assert.equal((await api.delete(`${boxes}/${id}`)).status, 204);
}

/** Its events: the type of each, with what was changed or over. */
async function toldOf(id: string): Promise<readonly string[]> {
  const { items } = (await api.get(`/v1/events?after=0&sandbox=${id}`)).json as {
    readonly items: readonly { readonly type: string; readonly data: Readonly<Record<string, string>> }[];
  };
  return items.map(({ type, data }) => `${type} ${data['changed'] ?? data['over'] ?? ''}`.trim());
}

/** Processor time that the sandboxes' processes with this word have used. */
function ticksOf(word: string): number {
  const found = processesOf(daemon.dataDir).filter(({ command }) => command.includes(word));
  assert.ok(found.length > 0);
  const ticks = found.map(({ pid }) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return Number(fields[11]) + Number(fields[12]);
  });
  return ticks.reduce((sum, each) => sum + each, 0);
}

describe('a sandbox of /v1', () => {
  it('has an id of its own that is a name of a host, and what it was given', async () => {
    const made = await create({
      name: 'My build',
      labels: { project: 'web', 'team/a': '' },
      env: { GREETING: 'hello', HOME: '/srv' },
      lifetime_s: 3_600,
    });
    assert.match(made.id, /^sb[a-z2-7]{16}$/);
    assert.deepEqual([made.name, made.labels], ['My build', { project: 'web', 'team/a': '' }]);
    assert.deepEqual([made.state, made.owner, made.on_timeout], ['ready', 'anon', 'destroy']);
    const leftMs = Date.parse(made.expires_at ?? '') - Date.now();
    assert.ok(leftMs > 3_500_000 && leftMs <= 3_600_000, `${leftMs}`);
    assert.equal(await sh(made.id, 'echo $GREETING $HOME'), 'hello /srv\n');
    assert.deepEqual((await get(made.id)).commands, 1);
    // The other spelling is over the same sandbox.
    assert.equal((await api.get(`/cgi-bin/api/sandboxes/${made.id}`)).json.max_lifetime_s, 3_600);
    await destroy(made.id);
    assert.equal((await api.get(`${boxes}/${made.id}`)).status, 404);
  });

  it('is refused whole where one thing of the request is unknown, reserved or not to be had', async () => {
    const refusals: readonly (readonly [object, string, RegExp])[] = [
      [{ nane: 'x' }, 'invalid_request', /"nane" is unknown/],
      [{ id: 'mine' }, 'invalid_request', /"id" is unknown/],
      [{ memory_mb: '64' }, 'invalid_request', /memory_mb/],
      [{ image: 'No Name' }, 'invalid_request', /image/],
      [{ image: 'localhost:1/none' }, 'registry_unavailable', /localhost:1/],
      [{ mounts: [{ host: '/srv', path: '/x' }] }, 'host_directory_refused', /not_allowed/],
      [{ backend: 'docker' }, 'invalid_request', /backend: one of chroot, vm/],
      ...(isOnVms ? [] : [[{ backend: 'vm' }, 'vm_unavailable', /900-vmm/] as const]),
      [{ memory: true }, 'invalid_request', /"memory"/],
      [{ labels: { 'a b': '' } }, 'invalid_request', /label/],
      [{ env: { 'A=B': '' } }, 'invalid_request', /variable/],
      [{ env: { A: 'a\0b' } }, 'invalid_request', /NUL/],
      [{ idle_timeout_s: 1 }, 'invalid_request', /idle_timeout_s/],
      [{ from: { layers: ['100-missing'] } }, 'module_not_found', /100-missing/],
      [{ from: { layers: [] } }, 'invalid_request', /from/],
      [{ from: { sandbox: 'missing' } }, 'sandbox_not_found', /missing/],
      [{ upstream: 'missing' }, 'invalid_request', /missing/],
    ];
    for (const [body, code, sentence] of refusals) {
      const { json, text } = await api.post(boxes, body);
      assert.equal(json.code, code, `${JSON.stringify(body)} ${text}`);
      assert.match(json.detail, sentence);
    }
    assert.deepEqual((await api.get(boxes)).json.items, []);
  });

  it('reaches nothing with an empty list, and everything public with none', async () => {
    const closed = await create({ policy: { allow: [] } });
    const open = await create();
    const allowed = async (id: string) => (await api.get(`${boxes}/${id}/policy`)).json.policy.allow;
    assert.deepEqual(await allowed(closed.id), ['none']);
    assert.deepEqual(await allowed(open.id), ['*']);
    await destroy(closed.id, open.id);
  });
});

describe('a create that comes twice', () => {
  const send = (key: string, body: object) =>
    api.send('POST', boxes, { headers: { 'idempotency-key': key }, body });

  it('makes one sandbox, at once or later, and after the daemon died', async () => {
    const [one, other] = await Promise.all([send('a', { name: 'once' }), send('a', { name: 'once' })]);
    assert.deepEqual([one?.status, one?.json.id], [201, other?.json.id]);
    await daemon.kill();
    await daemon.start();
    assert.equal((await send('a', { name: 'once' })).json.id, one?.json.id);
    const mismatch = await send('a', { name: 'other' });
    assert.deepEqual([mismatch.status, mismatch.json.code], [422, 'idempotency_mismatch']);
    const fork = { from: { sandbox: one?.json.id } };
    const made = (await send('b', fork)).json.id;
    assert.equal((await send('b', fork)).json.id, made);
    assert.equal((await api.get(boxes)).json.items.length, 2);
    await destroy(one?.json.id, made);
    // What it stood for is gone: the same words ask for another one.
    const again = await send('a', { name: 'once' });
    assert.notEqual(again.json.id, one?.json.id);
    await destroy(again.json.id);
  });

  it('tries anew where the first one was refused', async () => {
    const missing = { from: { layers: ['100-missing'] } };
    assert.equal((await send('c', missing)).status, 404);
    assert.equal((await send('c', missing)).status, 404);
    const made = await send('c', {});
    assert.equal(made.status, 201, made.text);
    await destroy(made.json.id);
  });
});

describe('a sandbox for one command', () => {
  it('is there as long as the command runs', async () => {
    const ran = await api.post('/v1/run', {
      sandbox: { env: { WHO: 'me' }, policy: { allow: [] } },
      exec: { shell: 'echo $WHO; cat; exit 3', stdin: 'in' },
    });
    assert.equal(ran.status, 200, ran.text);
    const { sandbox, result } = ran.json;
    assert.deepEqual([result.exit_code, result.stdout], [3, 'me\nin']);
    assert.equal((await api.get(`${boxes}/${sandbox}`)).status, 404);
    const late = await api.post('/v1/run', { exec: { argv: ['sleep', '60'], timeout_ms: 200 } });
    assert.equal(late.json.result.timed_out, true);
    assert.equal((await api.post('/v1/run', { exec: {} })).json.code, 'invalid_request');
    assert.deepEqual((await api.get(boxes)).json.items, []);
  });
});

describe('the list of sandboxes', () => {
  it('is told in pages, newest first, filtered by what they were given', async () => {
    const made: SandboxRecord[] = [];
    for (let at = 0; at < 5; at += 1)
      made.push(
        await create({
          name: `n${at}`,
          labels: { at: `${at}`, odd: `${at % 2}` },
          owner: at < 3 ? 'a' : 'b',
        }),
      );
    const ids = made.map(({ id }) => id).toReversed();
    const seen: string[] = [];
    let path: string | undefined = `${boxes}?limit=2`;
    let pages = 0;
    while (path !== undefined) {
      const { json } = await api.get(path);
      seen.push(...json.items.map((each: SandboxRecord) => each.id));
      path = json.next === null ? undefined : `${boxes}?limit=2&cursor=${json.next}`;
      pages += 1;
    }
    assert.deepEqual([seen, pages], [ids, 3]);
    const found = async (query: string): Promise<string> =>
      (await api.get(`${boxes}?${query}`)).json.items.map((each: SandboxRecord) => each.name).join();
    assert.equal(await found('label=odd%3D1'), 'n3,n1');
    assert.equal(await found('label=odd%3D0,at%3D4'), 'n4');
    assert.equal(await found('label=missing'), '');
    assert.equal(await found('owner=a&name=n2'), 'n2');
    assert.equal(await found('state=ready,paused'), 'n4,n3,n2,n1,n0');
    assert.equal(await found('state=paused'), '');
    for (const query of ['state=asleep', 'limit=0', 'limit=x', 'cursor=%2e', 'colour=red'])
      assert.equal((await api.get(`${boxes}?${query}`)).json.code, 'invalid_request', query);
    await destroy(...ids);
  });
});

describe('a change of a sandbox', () => {
  const skip = isOnVms ? 'a microVM that runs gets more than it started with behind a stop' : false;
  it('holds for what runs, all of it or nothing', { skip }, async () => {
    const { host } = (await api.get('/v1/info')).json;
    const memory = host.find(({ name }: Capability) => name === 'cgroup_memory');
    // Where memory can not be limited that is said, and the rest of this has nothing to look at.
    if (memory.state !== 'ok') {
      const refused = await api.post(boxes, { memory_mb: 32 });
      assert.equal(refused.json.code, 'limits_unenforceable', refused.text);
      return;
    }
    const { id } = await create({ memory_mb: 32, labels: { keep: '1', drop: '2' }, env: { A: '1' } });
    await sh(id, 'dd if=/dev/zero of=/dev/shm/fill bs=1M count=16 2>/dev/null');
    const changed = await patch(id, {
      name: 'other',
      labels: { drop: null, add: '3' },
      env: { B: '2' },
      memory_mb: 128,
      cpu: 0.5,
      lifetime_s: 600,
      idle_timeout_s: 60,
      on_timeout: 'pause',
    });
    assert.equal(changed.status, 200, changed.text);
    const { json } = changed;
    assert.deepEqual([json.name, json.labels, json.env], ['other', { keep: '1', add: '3' }, { B: '2' }]);
    assert.deepEqual([json.memory_mb, json.cpu, json.idle_timeout_s], [128, 0.5, 60]);
    assert.equal(await sh(id, 'echo "$A.$B"'), '.2\n');
    // More than its first limit, less than the new one.
    await sh(id, 'dd if=/dev/zero of=/dev/shm/more bs=1M count=40 2>/dev/null');
    const below = await patch(id, { memory_mb: 40, name: 'never' });
    assert.deepEqual([below.status, below.json.code], [409, 'limit_below_use']);
    const unknown = await patch(id, { name: 'never', colour: 'red' });
    assert.equal(unknown.json.code, 'invalid_request');
    assert.equal((await get(id)).name, 'other');
    const ended = await patch(id, { lifetime_s: null, idle_timeout_s: null });
    assert.deepEqual([ended.json.expires_at, ended.json.idle_timeout_s], [null, null]);
    await destroy(id);
  });
});

describe('a sandbox at rest', () => {
  const counting = 'i=0; while :; do i=$((i+1)); echo $i >> /count; done';
  const count = async (id: string): Promise<number> => Number(await sh(id, 'cat /count 2>/dev/null | wc -l'));
  const start = (id: string, cmd: string) => api.post(`/cgi-bin/api/sandboxes/${id}/exec-bg`, { cmd });

  it('stands still while it is paused, and goes on where it was', async () => {
    const { id } = await create();
    await start(id, counting);
    await waitFor('it to count', async () => (await count(id)) > 2);
    const paused = await api.post(`${boxes}/${id}/pause`);
    assert.equal(paused.json.state, 'paused', paused.text);
    assert.equal((await api.post(`${boxes}/${id}/pause`)).json.state, 'paused');
    const refused = await api.post(`/cgi-bin/api/sandboxes/${id}/exec`, { cmd: 'true' });
    assert.equal(refused.json.code, 'sandbox_paused');
    const word = isOnVms ? 'qemu-system' : 'count';
    const before = ticksOf(word);
    await sleep(300);
    assert.equal(ticksOf(word), before);
    const resumed = await api.post(`${boxes}/${id}/resume`);
    assert.equal(resumed.json.state, 'ready', resumed.text);
    const there = await count(id);
    await waitFor('it to go on', async () => (await count(id)) > there);
    await destroy(id);
  });

  it('keeps its files and no process when it is stopped', async () => {
    const { id } = await create();
    const { json: job } = await start(id, counting);
    await waitFor('it to count', async () => (await count(id)) > 2);
    const stopped = await api.post(`${boxes}/${id}/pause`, { keep: 'files' });
    assert.equal(stopped.json.state, 'stopped', stopped.text);
    const ended = (await api.get(`/cgi-bin/api/sandboxes/${id}/jobs/${job.job_id}`)).json;
    assert.deepEqual([ended.status, ended.reason], ['killed', 'stopped']);
    assert.equal((await api.post(`${boxes}/${id}/resume`)).json.state, 'ready');
    const there = await count(id);
    assert.ok(there > 2);
    await sleep(200);
    assert.equal(await count(id), there);
    await destroy(id);
  });

  it('is found at rest by the next daemon, and goes on under it', async () => {
    const paused = await create();
    const stopped = await create();
    const { json: job } = await start(paused.id, counting);
    await waitFor('it to count', async () => (await count(paused.id)) > 2);
    await api.post(`${boxes}/${paused.id}/pause`);
    await api.post(`${boxes}/${stopped.id}/pause`, { keep: 'files' });
    await daemon.kill();
    await daemon.start();
    assert.equal((await get(paused.id)).state, 'paused');
    assert.equal((await get(stopped.id)).state, 'stopped');
    assert.equal((await api.post(`${boxes}/${paused.id}/resume`)).json.state, 'ready');
    const there = await count(paused.id);
    await waitFor('it to go on', async () => (await count(paused.id)) > there);
    const path = `/cgi-bin/api/sandboxes/${paused.id}/jobs/${job.job_id}`;
    assert.equal((await api.get(path)).json.status, 'running');
    assert.equal((await api.delete(path)).status, 204);
    assert.equal((await api.post(`${boxes}/${stopped.id}/resume`)).json.state, 'ready');
    assert.equal(await sh(stopped.id, 'echo back'), 'back\n');
    // A sandbox that rests can be removed like any other.
    await api.post(`${boxes}/${paused.id}/pause`);
    await destroy(paused.id, stopped.id);
  });

  it('is told as events, each change once', async () => {
    const { id } = await create();
    await patch(id, { name: 'told', labels: { a: 'b' } });
    await api.send('PUT', `${boxes}/${id}/policy`, { body: { allow: ['a.example'] } });
    for (const keep of ['memory', 'files']) {
      await api.post(`${boxes}/${id}/pause`, { keep });
      await api.post(`${boxes}/${id}/pause`, { keep });
      await api.post(`${boxes}/${id}/resume`);
      await api.post(`${boxes}/${id}/resume`);
    }
    await destroy(id);
    assert.deepEqual(await toldOf(id), [
      'sandbox.created',
      'sandbox.updated name,labels',
      'sandbox.updated policy',
      'sandbox.paused',
      'sandbox.resumed',
      'sandbox.stopped',
      'sandbox.resumed',
      'sandbox.destroyed',
    ]);
  });

  it('comes by itself when nobody uses it, and ends with the first use', async () => {
    const still = await create({ idle_timeout_s: 5, on_timeout: 'pause' });
    const saved = await create({ idle_timeout_s: 5, on_timeout: 'snapshot' });
    await sh(saved.id, 'echo kept > /file');
    const gone = await create({ idle_timeout_s: 5 });
    const works = await create({ idle_timeout_s: 5 });
    await start(works.id, 'while :; do :; done');
    await waitFor('the pause', async () => (await get(still.id)).state === 'paused');
    await waitFor('the snapshot', async () => (await get(saved.id)).state === 'stopped');
    await waitFor('the end', async () => (await api.get(`${boxes}/${gone.id}`)).status === 404);
    assert.equal((await get(works.id)).state, 'ready');
    assert.equal(await sh(still.id, 'echo on'), 'on\n');
    await destroy(still.id);
    assert.equal((await api.get(`${boxes}/${saved.id}/snapshots`)).json.items.length, 1);
    assert.equal(await sh(saved.id, 'cat /file'), 'kept\n');
    await destroy(saved.id, works.id);
    const timedOut = (all: readonly string[]): readonly string[] =>
      all.filter((each) => !/sandbox\.(created|destroyed)/.test(each));
    assert.deepEqual(timedOut(await toldOf(still.id)), [
      'sandbox.paused',
      'sandbox.timed_out idle',
      'sandbox.resumed',
    ]);
    assert.deepEqual(timedOut(await toldOf(saved.id)), [
      'snapshot.created',
      'sandbox.stopped',
      'sandbox.timed_out idle',
      'sandbox.resumed',
    ]);
    assert.deepEqual(await toldOf(gone.id), [
      'sandbox.created',
      'sandbox.timed_out idle',
      'sandbox.destroyed',
    ]);
    assert.deepEqual(timedOut(await toldOf(works.id)), []);
  });
});

describe('a sandbox whose time is over', () => {
  const skip = isOnVms ? 'a microVM shows the host none of its commands' : false;
  it('is not put to rest where somebody uses it while its use is looked at', { skip }, async () => {
    const { id } = await create({ idle_timeout_s: 5, on_timeout: 'pause' });
    const signal = (name: NodeJS.Signals): void =>
      signalAll(daemon.dataDir, name, ({ command }) => command.includes('squash-launch resident'));
    // Between the two looks at the processor time that it has used: the second one takes until the launcher goes on.
    await sleep(3_500);
    signal('SIGSTOP');
    let usedMs: number;
    try {
      await sleep(2_500);
      usedMs = Date.now();
      void api.post(`/cgi-bin/api/sandboxes/${id}/exec`, { cmd: 'sleep 1.4718' }).catch(() => undefined);
      await waitFor('the use', () =>
        processesOf(daemon.dataDir).some(({ command }) => command.includes('sleep 1.4718')),
      );
    } finally {
      signal('SIGCONT');
    }
    await waitFor('the pause', async () => (await get(id)).state === 'paused');
    const { items } = (await api.get(`/v1/events?after=0&sandbox=${id}&type=sandbox.paused`)).json;
    assert.ok(Date.parse(items[0].at) - usedMs > 4_000, `${items[0].at} ${new Date(usedMs).toISOString()}`);
    await destroy(id);
  });

  it('is stopped without a snapshot where its owner has no disk left', async () => {
    const { id } = await create({ owner: 'thrifty' });
    await sh(id, 'echo kept > /file');
    await api.send('PUT', '/v1/owners/thrifty/quota', { body: { disk_mb: 0 } });
    await patch(id, { lifetime_s: 1, on_timeout: 'snapshot' });
    await waitFor('its end', async () => (await get(id)).state === 'stopped');
    assert.deepEqual((await api.get(`${boxes}/${id}/snapshots`)).json.items, []);
    await patch(id, { lifetime_s: null });
    assert.equal(await sh(id, 'cat /file'), 'kept\n');
    await destroy(id);
  });
});

describe('a sandbox made from another', () => {
  it('has its files as they are while it runs, and each goes on alone', async () => {
    const source = await create({ env: { FROM: 'source' }, policy: { allow: ['a.example'] } });
    await sh(source.id, 'echo one > /file; ln -s file /link; mkdir /gone; rm -r /etc/os-release');
    const fork = await create({ from: { sandbox: source.id } });
    const look = 'cat /link; ls -d /gone; test -e /etc/os-release || echo none; echo $FROM';
    assert.equal(await sh(fork.id, look), 'one\n/gone\nnone\nsource\n');
    assert.equal(fork.snapshot, 'origin');
    assert.deepEqual((await api.get(`${boxes}/${fork.id}/policy`)).json.policy.allow, ['a.example']);
    await sh(source.id, 'echo two > /file');
    await sh(fork.id, 'echo three > /file');
    assert.equal(await sh(source.id, 'cat /file'), 'two\n');
    // A fork of the fork, whose own source is gone.
    await destroy(source.id);
    const third = await create({ from: { sandbox: fork.id }, env: { FROM: 'fork' } });
    assert.equal(await sh(third.id, 'cat /file; echo $FROM'), 'three\nfork\n');
    await destroy(fork.id);
    assert.equal(await sh(third.id, 'cat /file; ls -d /gone'), 'three\n/gone\n');
    const back = await api.post(`/cgi-bin/api/sandboxes/${third.id}/restore`, { label: 'origin' });
    assert.equal(back.status, 200, back.text);
    await destroy(third.id);
  });

  it('has the files of a snapshot, whatever that lies on', async () => {
    const source = await create();
    const seed = `/cgi-bin/api/sandboxes/${source.id}`;
    await sh(source.id, 'echo one > /file');
    await api.post(`${seed}/snapshot`, { label: 'first' });
    await api.post(`${seed}/restore`, { label: 'first' });
    await sh(source.id, 'echo two > /other');
    await api.post(`${seed}/snapshot`, { label: 'second' });
    await sh(source.id, 'echo three >> /file');
    const made = await create({ from: { sandbox: source.id, snapshot: 'second' } });
    await destroy(source.id);
    assert.equal(await sh(made.id, 'cat /file /other'), 'one\ntwo\n');
    assert.deepEqual(
      (await api.get(`${boxes}/${made.id}/snapshots`)).json.items.map(
        (each: { label: string }) => each.label,
      ),
      ['origin'],
    );
    const missing = await api.post(boxes, { from: { sandbox: made.id, snapshot: 'none' } });
    assert.equal(missing.json.code, 'snapshot_not_found');
    await destroy(made.id);
  });
});
