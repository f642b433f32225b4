/** What one sandbox may ask for, and whether the host has room for another: refused when it is asked, with what is short. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { DaemonInfo } from '@squash/contract/daemon';
import { limits } from '@squash/contract/limits';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { type ApiAnswer, ApiClient } from '../support/api-client.ts';
import { isOnVms } from '../support/backend.ts';
import { squash } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';
import { needsRoot, smallExt4 } from '../support/small-disk.ts';

const path = '/cgi-bin/api/sandboxes';
const mib = 1_048_576;

async function roomOf(api: ApiClient): Promise<DaemonInfo['room']> {
  return ((await api.get('/v1/info')).json as DaemonInfo).room;
}

async function refusedFor(api: ApiClient, resource: string): Promise<number> {
  const { text } = await api.get('/metrics');
  const pattern = new RegExp(`squash_admission_refused_total\\{resource="${resource}"\\} (\\d+)`);
  return Number(pattern.exec(text)?.[1]);
}

function expectRefused(answer: ApiAnswer, [status, code]: readonly [number, string], why: RegExp): void {
  assert.deepEqual([answer.status, answer.json?.code], [status, code], answer.text);
  assert.match(answer.json.error ?? answer.json.detail, why);
}

/** Neither a sandbox nor a file of one. */
async function expectOnly(daemon: TestDaemon, ids: readonly string[]): Promise<void> {
  const list = (await daemon.call('GET', path)) as SandboxInfo[];
  assert.deepEqual(
    list.map(({ id }) => id),
    ids,
  );
  assert.deepEqual(readdirSync(join(daemon.dataDir, 'sandboxes')).sort(), ids);
}

test('a sandbox gets no more than the operator’s ceilings, and what it does not ask for fits below them', async () => {
  const env = { SQUASH_MAX_CPU: '1', SQUASH_MAX_MEMORY_MB: '512', SQUASH_MAX_LIFETIME_S: '600' };
  await using daemon = await TestDaemon.start({ env });
  const api = new ApiClient(daemon);
  const over: readonly (readonly [Readonly<Record<string, number | string>>, RegExp])[] = [
    [{ cpu: 1.5 }, /cpu is 1\.5, and SQUASH_MAX_CPU allows 1$/],
    [{ memory_mb: 513 }, /memory_mb is 513, and SQUASH_MAX_MEMORY_MB allows 512$/],
    [{ max_lifetime_s: '601' }, /max_lifetime_s is 601, and SQUASH_MAX_LIFETIME_S allows 600$/],
    [{ max_lifetime_s: 0 }, /max_lifetime_s is 0 \(unlimited\), and SQUASH_MAX_LIFETIME_S allows 600$/],
  ];
  for (const [fields, why] of over)
    expectRefused(await api.post(path, { id: 'dev', ...fields }), [400, 'ceiling_exceeded'], why);
  await expectOnly(daemon, []);
  const plain = (await daemon.call('POST', path, { id: 'dev' })) as SandboxInfo;
  assert.deepEqual([plain.cpu, plain.memory_mb, plain.max_lifetime_s], [1, 512, 600]);
  const full = { id: 'full', cpu: 1, memory_mb: 512, max_lifetime_s: 600 };
  assert.equal((await api.post(path, full)).status, 201);
  const { config } = (await api.get('/v1/info')).json as DaemonInfo;
  assert.equal(config.find(({ name }) => name === 'SQUASH_MAX_MEMORY_MB')?.value, '512');
});

test('sandboxes are promised no more than the host has, where the operator bounds it, in a burst too', async () => {
  await using daemon = await TestDaemon.start({
    env: { SQUASH_MEMORY_OVERCOMMIT: '5', SQUASH_CPU_OVERCOMMIT: '100' },
  });
  const api = new ApiClient(daemon);
  const before = await roomOf(api);
  // Its exit code speaks of what the host lacks, and the egress process may still be on its way.
  const { stdout } = await squash(daemon, ['doctor']);
  assert.match(stdout.toString(), /^memory: .* promised to sandboxes of .* at most$/m);
  // Three fit, however large the host is.
  const memory_mb = Math.floor((before.memory.promised_max ?? 0) / mib / 3.5);
  const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
  const answers = await Promise.all(ids.map((id) => api.post(path, { id, memory_mb, cpu: 0.1 })));
  const refused = answers.filter(({ status }) => status !== 201);
  assert.equal(refused.length, 3, answers.map(({ text }) => text).join('\n'));
  for (const answer of refused) {
    expectRefused(answer, [503, 'host_full'], /MiB of memory, and SQUASH_MEMORY_OVERCOMMIT allows .*remove/);
    assert.ok(answer.headers['retry-after']);
  }
  const made = ids.filter((_id, index) => answers[index]?.status === 201);
  await expectOnly(daemon, made);
  assert.equal((await roomOf(api)).memory.promised, 3 * memory_mb * mib);
  assert.equal(await refusedFor(api, 'memory'), 3);
  await api.delete(`${path}/${made[0]}`);
  const cpu = before.cpu.total;
  const greedy = await api.post(path, { id: 'greedy', memory_mb: 8, cpu });
  expectRefused(greedy, [503, 'host_full'], /processors, and SQUASH_CPU_OVERCOMMIT allows/);
  assert.equal((await api.post(path, { id: 'later', memory_mb, cpu: 0.1 })).status, 201);
});

test('a host with little memory left takes no more sandboxes, says so, and goes on with those it has', async () => {
  await using daemon = await TestDaemon.start();
  const api = new ApiClient(daemon);
  // A hundred of the usual kind are more than most hosts have: by default only what is in use counts.
  assert.equal((await roomOf(api)).memory.promised_max, null);
  assert.equal((await api.post(path, { id: 'kept' })).status, 201);
  const resting = { from: { layers: ['000-base-test'] }, on_timeout: 'snapshot' };
  const { id } = (await api.post('/v1/sandboxes', { ...resting, idle_timeout_s: 5 })).json;
  await waitFor('the rest', async () => (await api.get(`/v1/sandboxes/${id}`)).json.state === 'stopped');
  await daemon.stop();
  await daemon.start({ SQUASH_MEMORY_RESERVE_MB: '4194304' });
  const refused = await api.post(path, { id: 'more', memory_mb: 64 });
  expectRefused(refused, [503, 'host_full'], /MiB of memory available, and SQUASH_MEMORY_RESERVE_MB keeps/);
  await expectOnly(daemon, ['kept', id]);
  const { problems } = (await api.get('/cgi-bin/health')).json as DaemonInfo;
  assert.deepEqual(
    problems.map(({ code }) => code),
    ['memory_low'],
  );
  assert.equal((await api.post(`${path}/kept/exec`, { cmd: 'true' })).json.exit_code, 0);
  assert.equal(await refusedFor(api, 'memory'), 1);
  // Its first use would start it.
  for (const [what, body] of [
    ['exec', { shell: 'true' }],
    ['resume', undefined],
  ] as const)
    expectRefused(await api.post(`/v1/sandboxes/${id}/${what}`, body), [503, 'host_full'], /start sandbox/);
});

test('sandboxes at rest that are all used at once start only as far as the host has memory', async () => {
  await using daemon = await TestDaemon.start();
  const api = new ApiClient(daemon);
  const ids = Array.from({ length: isOnVms ? 6 : 24 }, (_, index) => `rests-${index}`);
  for (const id of ids) {
    assert.equal((await api.post(path, { id, memory_mb: 64 })).status, 201);
    assert.equal((await api.post(`/v1/sandboxes/${id}/pause`, { keep: 'files' })).status, 200);
  }
  // Tests beside this one may give back as much as all 24 take, between the look and the starts.
  let answers: readonly { readonly status: number; readonly json: { readonly code?: string } }[] = [];
  for (let round = 0; round < 4 && !answers.some(({ json }) => json.code === 'host_full'); round += 1) {
    for (const id of answers.length > 0 ? ids : [])
      assert.equal((await api.post(`/v1/sandboxes/${id}/pause`, { keep: 'files' })).status, 200);
    await daemon.stop();
    await daemon.start();
    const { memory } = await roomOf(api);
    const reserveBytes =
      memory.available - (isOnVms ? 2 * limits.startMemoryBytes.vm : 6 * limits.startMemoryBytes.chroot);
    await daemon.stop();
    await daemon.start({ SQUASH_MEMORY_RESERVE_MB: `${Math.floor(reserveBytes / mib)}` });
    answers = await Promise.all(ids.map((id) => api.post(`/v1/sandboxes/${id}/resume`)));
  }
  assert.ok(
    answers.some(({ json }) => json.code === 'host_full'),
    `${answers.map(({ status }) => status).join()}`,
  );
});

test('a disk that has no room for another sandbox, or little left at all, refuses creates and restores', {
  skip: isOnVms ? 'a microVM has a module that is larger than this disk' : needsRoot,
}, async () => {
  using disk = smallExt4(320 * mib);
  await using daemon = await TestDaemon.start({
    parent: disk.path,
    env: { SQUASH_UPPER_LIMIT_MB: '100', SQUASH_DISK_OVERCOMMIT: '100' },
  });
  const api = new ApiClient(daemon);
  for (const id of ['one', 'two']) assert.equal((await api.post(path, { id, memory_mb: 64 })).status, 201);
  assert.equal((await api.post(`${path}/one/snapshot`, { label: 'safe' })).status, 200);
  const third = await api.post(path, { id: 'three', memory_mb: 64 });
  expectRefused(third, [503, 'host_full'], /300 MiB of disk, and SQUASH_DISK_OVERCOMMIT allows/);
  const { available, kept } = (await roomOf(api)).disk;
  disk.take(available - kept + 4 * mib);
  assert.equal((await api.delete(`${path}/two`)).status, 204);
  const low = [507, 'disk_full'] as const;
  expectRefused(await api.post(path, { id: 'two', memory_mb: 64 }), low, /are to stay free: remove/);
  expectRefused(await api.post(`${path}/one/restore`, { label: 'safe' }), low, /restore sandbox "one"/);
  expectRefused(await api.post(`${path}/one/snapshot`, { label: 'more' }), low, /snapshot of sandbox "one"/);
  await expectOnly(daemon, ['one']);
  assert.equal((await api.post(`${path}/one/exec`, { cmd: 'true' })).json.exit_code, 0);
  disk.free();
  assert.equal((await api.post(`${path}/one/restore`, { label: 'safe' })).status, 200);
});

test('a create that is under way counts once', async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_MAX_SANDBOXES: '4' } });
  const api = new ApiClient(daemon);
  const create = async (id: string): Promise<number> => (await api.post(path, { id, memory_mb: 64 })).status;
  const creates = ['a', 'b', 'c'].map(create);
  // Seen as soon as they have a row, which is long before they are made.
  while (((await api.get(path)).json as SandboxInfo[]).length < creates.length);
  assert.deepEqual(await Promise.all([...creates, create('d')]), [201, 201, 201, 201]);
  expectRefused(await api.post(path, { id: 'e' }), [400, 'sandbox_limit'], /limit reached/);
});
