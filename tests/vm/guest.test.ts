/** The harness itself: what the other files of this folder rely on when they boot a guest. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { bootGuest } from './guest.ts';

test('guest runs systemd on cgroup v2 and answers with exact output when commands run in it', async () => {
  const before = await children();
  {
    await using vm = await bootGuest({ files: { 'this-file': import.meta.filename } });
    await vm.until('systemctl is-system-running');
    assert.equal(await vm.output('stat -f -c %T /sys/fs/cgroup'), 'cgroup2fs');
    assert.match(await vm.output('findmnt -no OPTIONS /'), /prjquota/);
    assert.match(await vm.output('node --version'), /^v24\./);
    assert.match(await vm.output('cat /opt/squash/vm/this-file'), /exact output/);

    const result = await vm.run('printf "a\\0\\n ready 1\\n"; echo "no" >&2; exit 7');
    assert.deepEqual(result, { exitCode: 7, stdout: 'a\0\n ready 1\n', stderr: 'no\n' });
    const slow = vm.output('until [ -e /run/go ]; do :; done; echo late');
    assert.equal(await vm.output('touch /run/go; id -un', { user: 'root' }), 'root');
    assert.equal(await slow, 'late');
    assert.equal(await vm.output('id -un; pwd', { user: 'alice' }), 'alice\n/home/alice');

    const bootId = vm.bootId;
    await vm.output('echo kept >/root/kept; sync');
    await vm.cutPower();
    assert.notEqual(vm.bootId, bootId);
    assert.equal(await vm.output('cat /root/kept'), 'kept');
  }
  assert.equal(await children(), before);
});

/** Children of this process: the emulator must not be among them when the guest is disposed. */
async function children(): Promise<string> {
  return readFile(`/proc/self/task/${String(process.pid)}/children`, 'utf8');
}
