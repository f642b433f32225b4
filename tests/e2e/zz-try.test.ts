import { test } from 'node:test';
import { mkdtempSync, chmodSync } from 'node:fs';
import { debianModules, vmModule } from '/srv/wt/fire/tests/support/clients-layer.ts';
import { TestDaemon } from '/srv/wt/fire/tests/support/daemon.ts';
import { standIn } from '/srv/wt/fire/tests/support/firecracker-program.ts';
test('try', async () => {
  const dir = mkdtempSync('/tmp/squash-fire-try-'); chmodSync(dir, 0o755);
  await using daemon = await TestDaemon.start({
    modules: { ...(await debianModules()), '900-vmm': await vmModule() },
    env: { SQUASH_BACKEND: 'firecracker', SQUASH_FIRECRACKER: standIn(dir, '1.16.1') },
  });
  const t = performance.now();
  const made = await daemon.request('POST', '/cgi-bin/api/sandboxes', { id: 'dev', layers: ['000-base-debian'], memory_mb: 256 });
  console.log(made.status, made.text, performance.now() - t);
  const ran = await daemon.request('POST', '/cgi-bin/api/sandboxes/dev/exec', { cmd: 'uname -a; cat /proc/cmdline; ls /sys/class/net; cat /etc/resolv.conf; df -h /; cat /proc/net/route; dmesg 2>&1 | tail -3' });
  console.log(ran.json.stdout, ran.json.stderr); console.log(daemon.output.slice(-3000));
});
