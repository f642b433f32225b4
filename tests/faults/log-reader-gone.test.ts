/** The daemon outlives whoever reads its log: `squash serve 2>&1 | head`, a terminal that was closed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { serveWords, TestDaemon } from '../support/daemon.ts';

test('a daemon whose log nobody reads any more goes on', async () => {
  await using daemon = await TestDaemon.start();
  await daemon.stop();
  const child = spawn(process.execPath, serveWords(), {
    cwd: daemon.dataDir,
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      SQUASH_DATA: daemon.dataDir,
      SQUASH_PORT: String(daemon.port),
      SQUASH_LOG_LEVEL: 'debug',
      ...(isOnVms ? { SQUASH_BACKEND: 'vm' } : {}),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  try {
    await once(child.stderr, 'data');
    child.stderr.destroy();
    await daemon.healthy();
    // Each of these writes to the log, which answers EPIPE.
    for (const id of ['one', 'two']) {
      const { status } = await daemon.request('POST', '/cgi-bin/api/sandboxes', { id });
      assert.equal(status, 201);
      assert.equal((await daemon.request('DELETE', `/cgi-bin/api/sandboxes/${id}`)).status, 204);
    }
    assert.equal(child.exitCode, null);
  } finally {
    child.kill('SIGTERM');
    await exited;
  }
});
