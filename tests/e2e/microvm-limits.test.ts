/**
 * Other limits for a microVM that runs, through the API: what its control group holds at once, and what its guest has to give back before
 * it counts as less.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Capability } from '@squash/contract/capability';
import { squashOk } from '../support/cli.ts';
import { debianModules, vmModule } from '../support/clients-layer.ts';
import { type Answer, TestDaemon } from '../support/daemon.ts';
import { processesOf, sandboxCgroupsOf } from '../support/leaks.ts';

const path = '/v1/sandboxes/dev';
const mib = 1_048_576;
let daemon: TestDaemon;
/** By control groups; a host without them refuses each change, for its own size is all that a guest holds to. */
let isHeld: boolean;

before(async () => {
  daemon = await TestDaemon.start({
    modules: { ...(await debianModules()), '900-vmm': await vmModule() },
  });
  const dev = { id: 'dev', layers: ['000-base-debian'], backend: 'vm', cpu: 2, memory_mb: 384 };
  await send('POST', '/cgi-bin/api/sandboxes', dev);
  const { host } = (await send('GET', '/v1/info')).json;
  const groups: readonly Capability[] = host.filter(({ name }: Capability) =>
    /^cgroup_(memory|cpu)$/.test(name),
  );
  isHeld = groups.every(({ state }) => state === 'ok');
});
after(async () => await daemon[Symbol.asyncDispose]());

async function send(method: string, target: string, body?: unknown): Promise<Answer> {
  const answer = await daemon.request(method, target, body);
  assert.ok(answer.status < 300, answer.text);
  return answer;
}

async function refused(wish: object): Promise<readonly [string, string]> {
  const { json, text } = await daemon.request('PATCH', path, wish);
  return [json.code, text];
}

async function run(cmd: string): Promise<Answer['json']> {
  return (await send('POST', '/cgi-bin/api/sandboxes/dev/exec', { cmd })).json;
}

async function output(cmd: string): Promise<string> {
  const { exit_code: code, stdout, stderr } = await run(cmd);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

const guestMib = async (): Promise<number> =>
  Math.floor(Number(await output("sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo")) / 1024);

const qemu = () =>
  processesOf(daemon.dataDir).find(({ command }) => command.includes('/qemu-system-x86_64 '));

const isEmulated = (): boolean => qemu()?.command.includes(' -accel tcg') === true;

/** What the guest's memory takes of the host. */
function heldMib(): number {
  const kb = /^RssShmem:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${qemu()?.pid}/status`, 'latin1'))?.[1];
  return Number(kb) / 1024;
}

/** Of the group that the VMM is in; undefined where this host has no such file. */
function groupNumber(...names: readonly string[]): number | undefined {
  for (const group of sandboxCgroupsOf(daemon.dataDir))
    for (const name of names) {
      try {
        return Number(readFileSync(join(group, name), 'utf8').split(' ')[0]);
      } catch {
        // Another controller's, or of the other version.
      }
    }
  return undefined;
}
const groupMemory = (): number => groupNumber('memory.max', 'memory.limit_in_bytes') ?? Number.NaN;
const groupQuota = (): number => groupNumber('cpu.max', 'cpu.cfs_quota_us') ?? Number.NaN;

/** Some 200 MB, in as many pieces. */
const takes = 'push @a, "x" x 1e6 for 1 .. 200';

test('what nothing would hold is refused', async () => {
  if (!isHeld) assert.equal((await refused({ cpu: 0.5, memory_mb: 192 }))[0], 'limits_unenforceable');
});

test('less and again as much of a processor holds at once, and more processors come with a start', async () => {
  if (!isHeld) return;
  const full = groupQuota();
  await squashOk(daemon, ['set', 'dev', '--cpu', '0.25']);
  assert.equal(groupQuota(), full / 8);
  // An emulated one has one processor, whatever it is said to have.
  await squashOk(daemon, ['set', 'dev', '--cpu', '2']);
  assert.equal(groupQuota(), full);
  if (isEmulated() || availableParallelism() < 3) return;
  const [code, text] = await refused({ cpu: 3 });
  assert.equal(code, 'vm_unsupported', text);
  assert.match(text, /2 processors while it runs: stop it/);
  assert.equal((await send('GET', path)).json.cpu, 2);
});

test('less memory is given back by its guest, and is the host’s; then it has it again', async () => {
  if (!isHeld) return;
  const [whole, group] = [await guestMib(), groupMemory()];
  // All of its pages are there.
  await output(`perl -e '${takes}'`);
  await send('PATCH', path, { memory_mb: 192 });
  assert.equal(await guestMib(), whole - 192);
  assert.equal(groupMemory(), group - 192 * mib);
  assert.ok(heldMib() <= 192, `${heldMib()} MiB are held`);
  const { exit_code: code, reason } = await run('perl -e \'push @a, "x" x 1e6 while 1\'');
  assert.deepEqual([code, reason], [137, 'oom_killed']);
  assert.ok(heldMib() <= 192, `${heldMib()} MiB are held`);
  // It can't go on elsewhere as it is now.
  const forked = await daemon.request('POST', '/v1/sandboxes', { from: { sandbox: 'dev' }, memory: true });
  assert.equal(forked.json.code, 'vm_unsupported', forked.text);
  const [over, text] = await refused({ memory_mb: 385 });
  assert.equal(over, 'vm_unsupported', text);
  assert.match(text, /384 MiB of memory at most while it runs: stop it/);
  await send('PATCH', path, { memory_mb: 384 });
  assert.equal(await guestMib(), whole);
  assert.equal(groupMemory(), group);
  await output(`perl -e '${takes}'`);
});

test('one whose commands use more is left as it is', async () => {
  if (!isHeld) return;
  const [whole, group] = [await guestMib(), groupMemory()];
  await output(`nohup perl -e '${takes}; open F, ">/root/has"; close F; sleep 1000' >/dev/null 2>&1 &`);
  await output('until test -e /root/has; do sleep 0.2; done');
  const [code, text] = await refused({ memory_mb: 128 });
  assert.equal(code, 'limit_below_use', text);
  assert.match(text, /to 128 MiB of memory: its kernel and commands use more/);
  assert.equal((await send('GET', path)).json.memory_mb, 384);
  assert.deepEqual([await guestMib(), groupMemory()], [whole, group]);
  await output('pkill perl; while pgrep -x perl >/dev/null; do sleep 0.1; done');
});

test('a start gives it what its limits say', async () => {
  if (!isHeld) return;
  await send('PATCH', path, { memory_mb: 256 });
  await send('POST', `${path}/pause`);
  const [code, text] = await refused({ memory_mb: 192 });
  assert.equal(code, 'vm_unsupported', text);
  await send('POST', `${path}/resume`);
  await send('POST', `${path}/pause`, { keep: 'files' });
  await send('PATCH', path, { cpu: 1 });
  await send('POST', `${path}/resume`);
  assert.equal((await refused({ memory_mb: 257 }))[0], 'vm_unsupported');
  await send('PATCH', path, { cpu: 0.5, memory_mb: 192 });
});

test('nothing is left of it when it is gone', async () => {
  await send('DELETE', path);
  assert.deepEqual(
    processesOf(daemon.dataDir).filter(({ command }) => command.includes('qemu-system')),
    [],
  );
});
