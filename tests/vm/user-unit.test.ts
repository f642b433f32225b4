/**
 * The unit of one user, for a lingering user with subordinate ids (alice) and one without (bob). Delegation is
 * what systemd gives a user by default: memory and pids.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { GuestMachine } from './guest.ts';
import { bootWithLayer, Service } from './service.ts';

const stack = new AsyncDisposableStack();
let vm: GuestMachine;

before(async () => {
  vm = stack.use(await bootWithLayer());
});

after(() => stack.disposeAsync());

for (const user of ['alice', 'bob'] as const) {
  test(`user unit starts the daemon and limits hold when ${user} lingers`, async () => {
    const squash = new Service(vm, user);
    // Both users' daemons listen on one machine: bob's on the Unix socket alone.
    if (user === 'bob') await squash.setting('SQUASH_PORT=off');
    await squash.install();
    const created = await squash.call('POST', '/sandboxes', { id: 'own', memory_mb: 64 });
    assert.doesNotMatch(JSON.stringify(created.warnings), /memory|pids/);
    assert.equal((await squash.exec('own', 'id -u; echo kept >/root/kept')).stdout, '0\n');
    const record = await squash.exec('own', 'x=x; while :; do x=$x$x$x$x; done');
    assert.equal(record.reason, 'oom_killed', JSON.stringify(record));
    const owners = await vm.output("ps -eo user=,comm= | awk '$2 ~ /squash-init/ {print $1}' | sort -u");
    assert.doesNotMatch(owners, /^root$/m);
  });

  test(`sandbox of ${user} goes on when the unit is restarted`, async () => {
    const squash = new Service(vm, user);
    const job = await squash.call('POST', '/sandboxes/own/exec-bg', { cmd: 'sleep 300', timeout: 600 });
    await squash.control('restart squash');
    await squash.healthy();
    const found = await squash.call('GET', `/sandboxes/own/jobs/${String(job.job_id)}`);
    assert.equal(found.status, 'running');
  });
}

test('sandboxes of lingering users start again when the machine reboots in order', async () => {
  await vm.reboot();
  for (const user of ['alice', 'bob'] as const) {
    const squash = new Service(vm, user);
    await squash.healthy();
    assert.equal((await squash.exec('own', 'cat /root/kept')).stdout, 'kept\n');
  }
});

test('no control group stays when a user stops everything', async () => {
  for (const user of ['alice', 'bob'] as const) {
    const squash = new Service(vm, user);
    await squash.run('/opt/squash/squash stop --all');
    await vm.until(`! pgrep -u ${user} -x squash-launch`);
  }
  assert.equal(await vm.output("find /sys/fs/cgroup -type d -name 'squash-????????????????'"), '');
});
