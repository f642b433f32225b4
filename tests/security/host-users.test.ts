/**
 * Other users of the host: what a sandbox wrote, what its commands printed and what its layers hold is not theirs,
 * and a set-uid file that a sandbox left in a layer is nobody's way to the sandboxes' ids.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { TestDaemon } from '../support/daemon.ts';

const skip = process.getuid?.() === 0 ? false : 'only root can become another user';
const nobody = 65_534;

function asNobody(
  program: string,
  words: readonly string[],
): { readonly ok: boolean; readonly said: string } {
  const { status, stdout, stderr } = spawnSync(program, words, {
    uid: nobody,
    gid: nobody,
    encoding: 'utf8',
  });
  return { ok: status === 0, said: `${stdout}${stderr}` };
}

test('another user of the host reaches nothing below the data directory', { skip }, async () => {
  await using daemon = await TestDaemon.start();
  const path = '/cgi-bin/api/sandboxes';
  const created = await daemon.request('POST', path, { id: 'closed', owner: 'a' });
  assert.equal(created.status, 201);
  const leave = 'cp /bin/busybox /tmp/left && chmod 6755 /tmp/left';
  const ran = await daemon.request('POST', `${path}/closed/exec`, { cmd: leave });
  assert.equal(ran.json.exit_code, 0);
  assert.ok((await daemon.request('POST', `${path}/closed/snapshot`, { label: 'l' })).status < 300);
  assert.ok((await daemon.request('POST', `${path}/closed/restore`, { label: 'l' })).status < 300);
  // As an operator or an earlier version may have made it: the next daemon closes it.
  await daemon.stop();
  chmodSync(daemon.dataDir, 0o755);
  await daemon.start();
  assert.equal(statSync(daemon.dataDir).mode & 0o777, 0o700);
  for (const name of readdirSync(daemon.dataDir).filter((each) => each.startsWith('squash.db'))) {
    assert.equal(statSync(join(daemon.dataDir, name)).mode & 0o077, 0, name);
  }
  const left = readdirSync(join(daemon.dataDir, 'layers'))
    .map((digest) => join(daemon.dataDir, 'layers', digest, 'tmp/left'))
    .find((file) => statSync(file, { throwIfNoEntry: false }) !== undefined);
  assert.ok(left, 'the snapshot’s layer holds the file');
  assert.equal(asNobody('/bin/ls', [daemon.dataDir]).ok, false);
  assert.equal(asNobody(left, ['true']).ok, false);
});
