/**
 * A namespace of control groups in a box, where the kernel keeps a box's limits from whoever mounts its groups (`nsdelegate`): the host that
 * runs the tests may have no version 2 of them.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { bootGuest, type GuestMachine } from './guest.ts';

const stack = new AsyncDisposableStack();
let vm: GuestMachine;

before(async () => {
  vm = stack.use(await bootGuest({ programs: ['cli/bin/squash.mjs'] }));
  await vm.output('loginctl enable-linger alice');
  await vm.until('test -S $XDG_RUNTIME_DIR/systemd/private', { user: 'alice' });
});

after(() => stack.disposeAsync());

test('the limits of a box with nesting are not its programs’ to change', async () => {
  const tries = `cd /tmp && mkdir m && mount -t cgroup2 none m && echo mounted
cat m/memory.max
for f in m/*; do test -f $f && (exec 3>>$f) 2>/dev/null && echo "open $f"; done
for f in memory.max memory.high memory.swap.max pids.max cgroup.max.descendants cgroup.max.depth; do (echo max >m/$f) 2>/dev/null && echo "written $f"; done
for f in cgroup.kill cgroup.freeze; do (echo 1 >m/$f) 2>/dev/null && echo "written $f"; done
(echo threaded >m/cgroup.type) 2>/dev/null && echo "written cgroup.type"
(echo "some 500000 2000000" >m/memory.pressure) 2>/dev/null && echo "written memory.pressure"
mkdir m/below 2>/dev/null && echo made; cat m/memory.max; echo over`;
  const words = `mkdir -p ~/work && cd ~/work && /opt/squash/squash box run --rm --nesting --memory 200 -- unshare --user --map-root-user --cgroup --mount sh -c '${tries.replaceAll("'", `'\\''`)}'`;
  const said = await vm.output(
    `systemd-run --user --quiet --pipe --wait --setenv=NODE_COMPILE_CACHE=/opt/node/commands sh -c "$(cat <<'END'\n${words}\nEND\n)"`,
    { user: 'alice' },
  );
  const lines = said.split('\n').filter((line) => !line.startsWith('open '));
  assert.deepEqual(lines, ['mounted', '209715200', '209715200', 'over']);
});
