/**
 * Device nodes look the same in every sandbox and must not be the same inode: by that inotify tells when others read
 * and write it, and by that locks are shared.
 */
import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';

const sandboxes = '/cgi-bin/api/sandboxes';
const skip = isOnVms
  ? 'a microVM has device nodes of its own kernel, of which no number is unlike another’s'
  : process.getuid?.() !== 0 && 'only root makes device nodes: SECURITY.md, weaker modes';
const nodes = ['null', 'zero', 'full', 'random', 'urandom', 'tty'];

test('no device node of a sandbox is another sandbox’s or the host’s', { skip }, async () => {
  await using daemon = await TestDaemon.start();
  const inodes = await Promise.all(
    nodes.map(async (node) => {
      const { dev, ino } = await stat(`/dev/${node}`);
      return `${dev}:${ino}`;
    }),
  );
  for (const id of ['one', 'two']) {
    const created = await daemon.request('POST', sandboxes, { id, owner: 'a', layers: '000-base-test' });
    assert.equal(created.status, 201, created.text);
    const cmd = `cd /dev && stat -c %d:%i ${nodes.join(' ')} && echo x >null && head -c 1 random | wc -c`;
    const { json } = await daemon.request('POST', `${sandboxes}/${id}/exec`, { cmd });
    assert.equal(json.exit_code, 0, json.stderr);
    inodes.push(...String(json.stdout).trim().split('\n').slice(0, nodes.length));
  }
  assert.equal(inodes.length, nodes.length * 3);
  assert.equal(new Set(inodes).size, inodes.length, inodes.join(' '));
});
