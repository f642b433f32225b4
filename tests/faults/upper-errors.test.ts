/** A file system in an image that met errors, as on a disk that fails: its sandbox is named until it has another one. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Problem } from '@squash/contract/daemon';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { needsRoot } from '../support/small-disk.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, output, sandboxesPath } from './model.ts';

/** The loop device of the sandbox's upper. */
function deviceOf(daemon: TestDaemon, id: string): string {
  const found = readdirSync('/sys/block').find((name) => {
    const file = `/sys/block/${name}/loop/backing_file`;
    return (
      existsSync(file) && readFileSync(file, 'utf8').startsWith(`${daemon.dataDir}/sandboxes/${id}/uppers/`)
    );
  });
  assert.ok(found !== undefined, `no loop device of ${id}`);
  return found;
}

async function problemOf(daemon: TestDaemon): Promise<Problem | undefined> {
  const health = (await daemon.call('GET', '/cgi-bin/health')) as { readonly problems?: readonly Problem[] };
  return health.problems?.find(({ code }) => code === 'upper_errors');
}

async function isWarned(daemon: TestDaemon, id: string): Promise<boolean> {
  const { warnings } = (await daemon.call('GET', boxPath(id))) as SandboxInfo;
  return warnings.some(({ code }) => code === 'upper_errors');
}

test('errors of an upper’s file system are said with their remedy, which works', {
  skip: isOnVms ? 'a microVM has a file system whose errors its own kernel alone knows' : needsRoot,
}, async () => {
  await using daemon = await TestDaemon.start({ env: { SQUASH_UPPER: 'image' } });
  for (const id of ['victim', 'other']) await daemon.call('POST', sandboxesPath, { id, memory_mb: 64 });
  await output(daemon, 'victim', 'echo kept >/file');
  assert.equal(await problemOf(daemon), undefined);
  writeFileSync(`/sys/fs/ext4/${deviceOf(daemon, 'victim')}/trigger_fs_error`, '1');
  const { message } = await waitFor('it to be said', () => problemOf(daemon));
  assert.match(message, /"victim".*squash snapshot.*squash restore/);
  assert.deepEqual([await isWarned(daemon, 'victim'), await isWarned(daemon, 'other')], [true, false]);
  const metrics = await daemon.request('GET', '/metrics');
  assert.match(metrics.text, /^squash_problem\{code="upper_errors"\} 1$/m);
  // The next daemon hears it from the launcher that has noticed.
  await daemon.kill();
  await daemon.start();
  await waitFor('it to be said again', () => problemOf(daemon));
  await daemon.call('POST', boxPath('victim', '/snapshot'), { label: 'rescued' });
  await daemon.call('POST', boxPath('victim', '/restore'), { label: 'rescued' });
  await waitFor('it to be over', async () => (await problemOf(daemon)) === undefined);
  assert.equal(await output(daemon, 'victim', 'cat /file'), 'kept\n');
});
