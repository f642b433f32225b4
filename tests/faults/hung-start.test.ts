/** A launcher that hangs when a daemon starts is replaced before whoever started that gives up; and he may end it meanwhile. */
import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '@squash/contract/limits';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { written } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf, signalAll } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';
import { boxPath, output, sandboxesPath } from './model.ts';

/** Which a daemon takes just before it asks the launcher. */
function holdsLock({ pid }: { readonly pid: number }): boolean {
  const directory = `/proc/${pid}/fd`;
  try {
    return readdirSync(directory).some((fd) => readlinkSync(join(directory, fd)).endsWith('/daemon.lock'));
  } catch {
    // It has ended, or that file was just closed.
    return false;
  }
}

/** What `squash serve --detach` waits. */
const readyMsMax = 60_000;

test('a launcher that hangs when a daemon starts is replaced within the time that serve --detach waits, and ending the start waits for nobody', async () => {
  await using daemon = await TestDaemon.start();
  await daemon.call('POST', sandboxesPath, { id: 'dev', memory_mb: 64 });
  await output(daemon, 'dev', `echo kept > /root/file${written}`);
  await daemon.kill();
  signalAll(daemon.dataDir, 'SIGSTOP', ({ command }) => command.includes('squash-launch resident'));
  await daemon.launch();
  await waitFor('the start to wait', () => processesOf(daemon.dataDir).some(holdsLock));
  const begunMs = performance.now();
  await daemon.stop();
  assert.ok(performance.now() - begunMs < limits.launcherStartHungMs / 2);
  assert.match(daemon.output, /daemon\.stopping/);
  const startedMs = performance.now();
  await daemon.launch();
  const info = async () => (await daemon.call('GET', boxPath('dev'))) as SandboxInfo;
  await waitFor(
    'it to be back',
    async () => (await info().catch(() => undefined))?.state === 'ready',
    readyMsMax,
  );
  assert.ok(performance.now() - startedMs < readyMsMax);
  assert.equal(await output(daemon, 'dev', 'cat /root/file'), 'kept\n');
});
