/** `squash serve --detach` that is ended before its daemon is ready, or waited in vain, leaves no daemon that nobody knows of. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { endOf, startCli } from '../support/cli.ts';
import { removeDataDirectory } from '../support/data-directory.ts';
import { freePort } from '../support/free-port.ts';
import { expectNoLeaks, processesOf } from '../support/leaks.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const endings = [
  { how: 'when it is ended itself', readyMs: 60_000, signal: 'SIGTERM', says: /SIGTERM came/ },
  { how: 'that is not ready in time', readyMs: 3_000, signal: undefined, says: /not answer after 3 s/ },
] as const;

for (const { how, readyMs, signal, says } of endings) {
  test(`serve --detach ends its daemon ${how}`, async () => {
    const dataDir = mkdtempSync(join(tmpdir(), ownedPrefix('test')));
    // Whoever holds this lock holds up every start.
    const holder = spawn('flock', [join(dataDir, 'launch.lock'), 'cat'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    try {
      holder.stdin.write('held\n');
      await once(holder.stdout, 'data');
      const env = {
        SQUASH_DATA: dataDir,
        SQUASH_PORT: String(await freePort()),
        SQUASH_READY_MS: String(readyMs),
      };
      const cli = startCli(undefined, ['serve', '--detach'], { env });
      const ended = endOf(cli);
      const isStart = ({ command }: { readonly command: string }): boolean =>
        command.includes('squash-launch keep');
      await waitFor('the start to wait', () => processesOf(dataDir).some(isStart));
      if (signal !== undefined) cli.kill(signal);
      const { code, stderr } = await ended;
      assert.equal(code, 1);
      assert.match(stderr, says);
      assert.ok(!processesOf(dataDir).some(isStart));
    } finally {
      holder.stdin.end();
      await once(holder, 'exit');
      await expectNoLeaks(dataDir);
      await removeDataDirectory(dataDir);
    }
  });
}
