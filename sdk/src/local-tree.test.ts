/** A directory of this machine that somebody else writes in while it is sent, and archives that go too far. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { downloadTree, uploadTree } from './local-tree.ts';
import { tarEnd, tarHeader } from './tar-writer.ts';

test('uploadTree reads nothing through what has become a link', async () => {
  const top = mkdtempSync(join(tmpdir(), 'squash-local-tree-'));
  try {
    for (const name of ['outside', 'here', 'here/below']) mkdirSync(join(top, name));
    writeFileSync(join(top, 'outside/file'), 'of the host');
    writeFileSync(join(top, 'here/below/file'), 'own');
    execFileSync('mkfifo', [join(top, 'pipe')]);
    writeFileSync(join(top, 'here/last'), 'own');
    let sent = '';
    for await (const part of uploadTree(join(top, 'here'))) {
      if (sent === '') {
        renameSync(join(top, 'here/below'), join(top, 'aside'));
        symlinkSync(join(top, 'outside'), join(top, 'here/below'));
        // As one who has it attached does between two looks.
        rmSync(join(top, 'here/last'));
        renameSync(join(top, 'pipe'), join(top, 'here/last'));
      }
      sent += Buffer.from(part).toString('latin1');
    }
    assert.match(sent, /below[^]*own/);
    assert.doesNotMatch(sent, /of the host/);
  } finally {
    rmSync(top, { recursive: true });
  }
});

test('downloadTree takes no path that can hardly be removed again, and leaves nothing of what was none', async () => {
  const top = mkdtempSync(join(tmpdir(), 'squash-local-tree-'));
  const directory = (name: string) =>
    tarHeader({ type: 'directory', name, mode: 0o755, mtimeMs: 0, size: 0, target: '' });
  async function* deep(): AsyncGenerator<Uint8Array, void, void> {
    yield directory('d');
    yield directory('d/'.repeat(2_100));
    yield tarEnd();
  }
  try {
    await assert.rejects(downloadTree(deep(), join(top, 'new')), {
      code: 'archive_invalid',
      message: /too long a path/,
    });
    assert.deepEqual(readdirSync(top), []);
  } finally {
    rmSync(top, { recursive: true });
  }
});
