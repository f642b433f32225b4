/** AppArmor, as Ubuntu uses it against user namespaces: without a profile Squash says what to do, with its own it runs. */
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

/** As Ubuntu's own profile for programs that no profile names: a user namespace may be made, and nothing done in it. */
const refusing = `
profile squash_refused /opt/squash/native/build/*/squash-launch {
  file, network, unix, signal, ptrace, /** ix,
  audit deny capability,
}
`;

test('Squash of an ordinary user runs under the profile that comes with it, and says what to do without', async () => {
  assert.match(await vm.output('cat /sys/kernel/security/lsm'), /apparmor/);
  await vm.output(`cat >/tmp/refusing <<'END'${refusing}END\napparmor_parser -r /tmp/refusing`);
  const refused = await vm.run('/opt/squash/squash doctor', { user: 'alice' });
  assert.notEqual(refused.exitCode, 0, refused.stdout);
  assert.match(refused.stdout, /AppArmor's profile "squash_refused \(enforce\)"[^]*apparmor_parser -r/);
  await vm.output('apparmor_parser -R /tmp/refusing');

  await vm.output('cp /opt/squash/packaging/apparmor/squash /tmp/squash && apparmor_parser -r /tmp/squash');
  const squash = new Service(vm, 'alice');
  await squash.install();
  const label = await vm.output(
    'cat /proc/$(pgrep -u alice -x squash-launch | head -n 1)/attr/apparmor/current',
  );
  assert.equal(label, 'squash (unconfined)');
  await squash.call('POST', '/sandboxes', { id: 'own', memory_mb: 64 });
  const record = await squash.exec('own', 'id -u; chown 7:7 /tmp/. && stat -c %u /tmp');
  assert.equal(record.stdout, '0\n7\n', JSON.stringify(record));
  // On a slow machine the egress process may not answer at once.
  await vm.until('/opt/squash/squash doctor', { user: 'alice' });
  await squash.run('/opt/squash/squash stop --all');
});
