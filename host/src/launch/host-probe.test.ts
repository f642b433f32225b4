/** What the host probe tells its reader, as root's launcher and as an ordinary user's finds it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { insideLauncher } from '../../../tests/support/launcher.ts';
import { probeHost } from './host-probe.ts';

await insideLauncher(import.meta.filename, ['default', 'user'], ({ client }) => {
  test('a remedy mends what the host lacks, and no other thing', async () => {
    const capabilities = await probeHost(client);
    const fuse = capabilities.find(({ name }) => name === 'fuse_overlayfs');
    assert.ok(fuse);
    assert.equal(fuse.remedy?.includes('apt install') ?? false, fuse.found.startsWith('no fuse-overlayfs'));
    const groups = capabilities.filter(({ name }) => name.startsWith('cgroup_'));
    assert.equal(groups.length, 4);
    for (const { name, state, found, remedy } of groups) {
      // The sentence of a warning: "memory_mb is not enforced: cgroup version 1, …".
      assert.match(found, /^(cgroup version [12], |no control group hierarchy)/, name);
      assert.equal(remedy === null, state === 'ok', name);
      if (found.startsWith('cgroup version 1')) assert.doesNotMatch(remedy ?? '', /Delegate/, name);
    }
  });

  test('a handler that the kernel would start for a crash in a sandbox is named, with what ends it', async () => {
    const row = (await probeHost(client)).find(({ name }) => name === 'crash_handler');
    const pattern = readFileSync('/proc/sys/kernel/core_pattern', 'utf8').trim();
    assert.equal(row?.found, pattern);
    assert.equal(row?.remedy === null, !/^[|@]/.test(pattern));
  });
});
