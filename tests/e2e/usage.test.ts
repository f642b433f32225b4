/** What a real daemon says a sandbox uses: processor, memory, disk, network, and how that went. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SandboxUsage } from '@squash/contract/usage';
import { ApiClient } from '../support/api-client.ts';
import { TestDaemon } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const path = '/cgi-bin/api/sandboxes';

/** Null everywhere where the host has no control groups for this user. */
function checkAtLeast(value: number | null, least: number, what: string): void {
  assert.ok(value === null || value >= least, `${what} is ${value}`);
}

test('usage follows what a sandbox does, and has a history while somebody asks', async () => {
  await using daemon = await TestDaemon.start();
  const api = new ApiClient(daemon);
  const usage = async (): Promise<SandboxUsage> =>
    (await api.get('/v1/sandboxes/busy/usage')).json as SandboxUsage;
  await api.post(path, { id: 'busy', layers: '000-base-test', cpu: 1, memory_mb: 64 });
  const fresh = await usage();
  assert.deepEqual([fresh.cpu_limit, fresh.memory_limit_bytes], [1, 64 * 1_048_576]);
  assert.equal(fresh.history.length, 0);
  const isMeasured = fresh.cpu_us !== null;
  assert.equal(isMeasured, fresh.pids !== null);
  await api.post(`${path}/busy/exec`, { cmd: 'head -c 8000000 /dev/urandom > /root/file' });
  await api.post(`${path}/busy/exec-bg`, { cmd: 'while :; do :; done' });
  await waitFor('two samples', async () => (await usage()).history.length >= 2, 20_000);
  await waitFor(
    'the upper to be measured',
    async () => ((await usage()).disk_bytes ?? 0) >= 8_000_000,
    20_000,
  );
  const later = await usage();
  checkAtLeast(later.cpu_us, (fresh.cpu_us ?? 0) + 1_000_000, 'cpu_us');
  checkAtLeast(later.cpu_percent, 10, 'cpu_percent');
  checkAtLeast(later.pids, 2, 'pids');
  checkAtLeast(later.memory_bytes, 4_096, 'memory_bytes');
  assert.equal(later.cpu_us !== null, isMeasured);
  const [first, second] = later.history;
  const stepMs = Date.parse(second?.at ?? '') - Date.parse(first?.at ?? '');
  assert.ok(stepMs >= 4_900 && stepMs < 30_000, `a step of ${stepMs} ms`);
  // The base layer of tests has nothing that connects: the egress process answers, and has seen none.
  assert.deepEqual([later.network_in_bytes, later.connections], [0, 0]);
  assert.equal((await api.get('/v1/sandboxes/none/usage')).status, 404);
  await api.delete(`${path}/busy`);
  assert.equal((await api.get('/v1/sandboxes/busy/usage')).status, 404);
});
