/**
 * The unit of the system on cgroup v2: limits hold, a restart leaves everything running, a reboot brings it back.
 * One guest for all, in this order: booting it is the slow part.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { limits } from '@squash/contract/limits';
import type { GuestMachine } from './guest.ts';
import { bootWithLayer, Service } from './service.ts';

const stack = new AsyncDisposableStack();
let vm: GuestMachine;
let squash: Service;

before(async () => {
  vm = stack.use(await bootWithLayer());
  squash = new Service(vm, 'root');
  await squash.install();
});

after(() => stack.disposeAsync());

/** The one control group of this guest that holds a sandbox's processes. */
async function groupOf(id: string): Promise<string> {
  const word = `marker-${id}`;
  await squash.call('POST', `/sandboxes/${id}/exec-bg`, { cmd: `sleep 600; : ${word}`, timeout: 600 });
  const path = await vm.output(`sed 's/^0:://' /proc/$(pgrep -f ${word} | head -n 1)/cgroup`);
  return `/sys/fs/cgroup${path}`;
}

test('system unit starts the daemon without warnings when the machine has cgroup v2', async () => {
  assert.equal(await squash.control('is-active squash'), 'active');
  await vm.output('systemd-analyze verify /etc/systemd/system/squash.service');
  const created = await squash.call('POST', '/sandboxes', { id: 'first', cpu: 0.5, memory_mb: 64 });
  assert.deepEqual(created.warnings, []);
  assert.equal((await squash.exec('first', 'id -u')).stdout, '0\n');
});

test('nothing but the privileged helper and the keeper is root on the guest when the service runs', async () => {
  const processes = await vm.output(
    'ps -eo uid=,args= | grep -F -e squash -e /opt/ | grep -v -e grep -e squash-agent -e squash-test-age -e defunct',
  );
  const asRoot = processes.split('\n').filter((line) => /^\s*0 /.test(line) && !line.endsWith('<defunct>'));
  // The helper has a child that serves.
  assert.ok(asRoot.length <= 3, processes);
  const isKnown = /^\s*0 squash-launch (?:helper squash-[0-9a-f]{16}|keeper \/var\/lib\/squash)$/;
  assert.deepEqual(
    asRoot.filter((line) => !isKnown.test(line)),
    [],
  );
});

test('want of memory takes a sandbox’s commands first, then daemon and egress process, launcher and helper last', async () => {
  const scoreOf = async (part: string) =>
    Number(await vm.output(`cat /proc/$(pgrep -f '${part}' | head -n 1)/oom_score_adj`));
  const parts = [
    'squash-launch [h]elper',
    'squash-launch [r]esident',
    'host/src/[m]ain.ts',
    'egress/src/[m]ain.ts',
  ];
  assert.deepEqual(await Promise.all(parts.map(scoreOf)), [-882, -470, -235, -235]);
  // The unit's -500 is nothing that a sandbox could take for itself.
  const cmd =
    '(echo -1 >/proc/1/oom_score_adj) 2>/dev/null; cat /proc/1/oom_score_adj /proc/self/oom_score_adj';
  assert.equal((await squash.exec('first', cmd)).stdout, '0\n500\n');
});

test('limits are in the sandbox’s own group when it is created with them', async () => {
  const group = await groupOf('first');
  assert.equal(await vm.output(`cat ${group}/memory.max`), String(64 * 1024 * 1024));
  assert.equal(await vm.output(`cat ${group}/cpu.max`), '50000 100000');
  assert.match(await vm.output(`cat ${group}/pids.max`), /^\d+$/);
  // Not below the unit's: systemd could not start the next daemon in a group whose children have controllers.
  assert.match(group, /^\/sys\/fs\/cgroup\/squash-/);
});

test('the egress process is in a group of its own with its memory limit when the service runs', async () => {
  const pid = "$(pgrep -f 'egress/src/[m]ain.ts')";
  // The helper moves it: nobody else may across groups of other owners.
  await vm.until(`grep -q '/egress$' /proc/${pid}/cgroup`);
  const group = `/sys/fs/cgroup${await vm.output(`sed 's/^0:://' /proc/${pid}/cgroup`)}`;
  assert.equal(await vm.output(`cat ${group}/memory.max`), String(limits.egressMemoryBytesMax));
  assert.equal(
    await vm.output(`cat ${group}/cgroup.procs`),
    await vm.output(`pgrep -f 'egress/src/[m]ain.ts'`),
  );
});

test('memory limit ends the offender and says so when a command takes too much', async () => {
  const record = await squash.exec('first', 'x=x; while :; do x=$x$x$x$x; done');
  assert.equal(record.reason, 'oom_killed', JSON.stringify(record));
  assert.equal((await squash.exec('first', 'echo up')).stdout, 'up\n');
});

test('process limit holds when a command makes more than it may', async () => {
  await squash.call('POST', '/sandboxes', { id: 'many', layers: '000-base-test,050-attack', memory_mb: 256 });
  const group = await groupOf('many');
  const processesMax = Number(await vm.output(`cat ${group}/pids.max`));
  const record = await squash.exec('many', `/attack/attack processes ${String(processesMax + 1)}`);
  assert.match(record.stdout, /^held: \d+ processes, then/, JSON.stringify(record));
  assert.match(await vm.output(`cat ${group}/pids.events`), /max [1-9]/);
  await squash.call('DELETE', '/sandboxes/many');
});

test('disk limit holds when a command writes without end', async () => {
  await squash.setting('SQUASH_UPPER_LIMIT_MB=32');
  await squash.control('restart squash');
  await squash.healthy();
  const created = await squash.call('POST', '/sandboxes', { id: 'disk', memory_mb: 64 });
  assert.deepEqual(created.warnings, []);
  const record = await squash.exec('disk', 'dd if=/dev/zero of=/big bs=1M count=80 2>&1; wc -c </big');
  const bytes = Number(record.stdout.trim().split('\n').at(-1));
  assert.ok(bytes > 8 * 1024 * 1024 && bytes <= 33 * 1024 * 1024, record.stdout);
  await squash.call('DELETE', '/sandboxes/disk');
});

test('snapshot freezes and thaws the group when a command writes meanwhile', async () => {
  const group = await groupOf('first');
  const loop = 'while :; do date +%s%N >/a; cp /a /b; done';
  const job = await squash.call('POST', '/sandboxes/first/exec-bg', { cmd: loop, timeout: 300 });
  await squash.call('POST', '/sandboxes/first/snapshot', { label: 'frozen' });
  assert.equal(await vm.output(`cat ${group}/cgroup.freeze`), '0');
  assert.match(await vm.output(`cat ${group}/cgroup.events`), /frozen 0/);
  await squash.call('DELETE', `/sandboxes/first/jobs/${String(job.job_id)}`);
});

test('sandboxes and jobs run on and are found again when the unit is restarted', async () => {
  const cmd = 'echo begun; until [ -e /tmp/go ]; do sleep 0.1; done; echo over';
  const job = await squash.call('POST', '/sandboxes/first/exec-bg', { cmd, timeout: 600 });
  const pids = async (): Promise<string> => vm.output("pgrep -f 'until .* /tmp/[g]o'");
  const before = await pids();
  const main = await squash.control('show -P MainPID squash');
  await squash.control('restart squash');
  await squash.healthy();
  assert.notEqual(await squash.control('show -P MainPID squash'), main);
  // systemd warns of each process that it finds in the unit's group when it starts the next daemon in there.
  assert.doesNotMatch(await vm.output('journalctl --no-pager'), /left-over process/);
  assert.equal(await pids(), before);
  assert.equal((await squash.exec('first', 'touch /tmp/go')).exit_code, 0);
  const ended = `curl -sS --unix-socket ${squash.dataDir}/run/api.sock http://localhost/cgi-bin/api/sandboxes/first/jobs/${String(job.job_id)} | grep '"exit_code":0'`;
  await vm.until(ended);
});

test('doctor finds everything in order when it runs on this machine', async () => {
  const result = await vm.run('SQUASH_DATA=/var/lib/squash /opt/squash/squash doctor');
  assert.equal(result.exitCode, 0, result.stdout + result.stderr);
  assert.match(result.stdout, /cgroup/i);
  assert.match(result.stdout, /\bv?2\b/);
});

test('sandboxes start again on their files when the machine was switched off', async () => {
  assert.equal((await squash.exec('first', 'echo kept >/root/kept; sync')).exit_code, 0);
  await vm.output('sync');
  await vm.cutPower();
  await squash.healthy();
  assert.equal((await squash.exec('first', 'cat /root/kept')).stdout, 'kept\n');
});

test('nothing stays when everything is stopped', async () => {
  await squash.call('DELETE', '/sandboxes/first');
  await vm.output('SQUASH_DATA=/var/lib/squash /opt/squash/squash stop --all');
  await squash.control('stop squash');
  await vm.until('! pgrep -x squash-init && ! pgrep -x squash-launch');
  assert.equal(await vm.output("find /sys/fs/cgroup -type d -name 'squash-????????????????'"), '');
  assert.equal(await vm.output('losetup -a'), '');
});

test('a kernel without TPROXY is told by create and doctor, and sandboxes work without a network', async () => {
  await vm.output("echo 'install nft_tproxy /bin/false' >/etc/modprobe.d/none.conf");
  // In use until the last namespace that has the rules is gone.
  await vm.until('! lsmod | grep -q nft_tproxy || modprobe -r nft_tproxy');
  await squash.control('start squash');
  await squash.healthy();
  const created = await squash.call('POST', '/sandboxes', { id: 'alone', memory_mb: 64 });
  assert.deepEqual(
    created.warnings.map(({ code }: { readonly code: string }) => code),
    ['network'],
    JSON.stringify(created.warnings),
  );
  assert.match(created.warnings[0].message, /nft_tproxy/);
  assert.equal((await squash.exec('alone', 'cat /proc/net/dev | grep -c :')).stdout, '1\n');
  const { stdout } = await vm.run('SQUASH_DATA=/var/lib/squash /opt/squash/squash doctor');
  assert.match(stdout, /network: no sandbox reaches any host[^]*modprobe -a nf_tables nft_tproxy/);
  await squash.call('DELETE', '/sandboxes/alone');
  await vm.output('SQUASH_DATA=/var/lib/squash /opt/squash/squash stop --all');
});
