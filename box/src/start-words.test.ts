/** What the last start was is forgotten where the daemon's programs are not built: else each later start would run the sources. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { DaemonInfo } from '@squash/contract/daemon';
import { startBoxDaemon } from './daemon.ts';

test('a daemon whose programs are not built is not started so again', async () => {
  const home = mkdtempSync(join(tmpdir(), 'squash-start-words-'));
  const dataDir = join(home, 'box');
  mkdirSync(join(dataDir, 'run'), { recursive: true });
  mkdirSync(join(dataDir, 'log'));
  const words = join(dataDir, 'log/start.words');
  const server = createServer().listen(join(dataDir, 'run/api.sock'));
  await once(server, 'listening');
  try {
    for (const isBuilt of [true, false]) {
      writeFileSync(words, 'of the last start');
      await startBoxDaemon(
        { env: { SQUASH_BOX_DATA: dataDir }, home, uid: process.geteuid?.() ?? 0 },
        {
          program: [],
          isBuilt: () => isBuilt,
          ask: async () => await Promise.resolve({} as DaemonInfo),
          launcher: '',
          caller: '',
        },
      );
      assert.equal(existsSync(words), isBuilt);
    }
  } finally {
    server.close();
    rmSync(home, { recursive: true });
  }
});
