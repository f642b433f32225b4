/** What a test that was killed leaves is found by its directory's name and ended, and nothing of a test that lives. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { seenAs } from '../support/backend.ts';
import { expectNoLeaks, processesOf } from '../support/leaks.ts';
import { abandonedDirectories, removeAbandoned } from '../support/owned-directory.ts';

const script = `
  import { TestDaemon } from '${join(import.meta.dirname, '../support/daemon.ts')}';
  const daemon = await TestDaemon.start();
  await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'left', memory_mb: 64 });
  await daemon.call('POST', '/cgi-bin/api/sandboxes/left/exec-bg', { cmd: 'sleep 5190' });
  console.log(daemon.dataDir);
  setInterval(() => {}, 1e6);
`;

test('daemon, launcher and sandboxes of a killed test are ended by the next run', async (t) => {
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  const directory = said.toString().trim();
  assert.match(directory, /\/squash-test-/);
  const names = ['host/src/main.ts', 'egress/src/main.ts', 'squash-launch resident', seenAs('sleep 5190')];
  const running = (): readonly string[] =>
    names.filter((name) => processesOf(directory).some(({ command }) => command.includes(name)));
  assert.deepEqual(running(), names);
  assert.ok(!abandonedDirectories().includes(directory), 'its maker lives');
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.deepEqual(running(), names, 'else nothing would be left to end');
  assert.ok(abandonedDirectories().includes(directory));
  await removeAbandoned(directory);
  await expectNoLeaks(directory);
  assert.ok(!existsSync(directory));
});
