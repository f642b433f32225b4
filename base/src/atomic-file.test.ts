/** A file is the old or the new one, and a failure leaves nothing beside it. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeFileAtomic } from './atomic-file.ts';

test('a file is replaced as a whole and a failed write leaves the old one alone', async () => {
  const parent = mkdtempSync(join(tmpdir(), 'squash-file-'));
  const directory = join(parent, 'inner');
  mkdirSync(directory);
  try {
    const path = join(directory, 'file');
    await writeFileAtomic(path, 'old');
    await writeFileAtomic(path, 'new');
    assert.equal(readFileSync(path, 'utf8'), 'new');
    await assert.rejects(writeFileAtomic(join(directory, 'missing', 'file'), 'x'), { code: 'ENOENT' });
    // The target is a directory: the rename fails after everything was written.
    await assert.rejects(writeFileAtomic(directory, 'x'));
    assert.deepEqual(readdirSync(directory), ['file']);
    assert.deepEqual(readdirSync(parent), ['inner']);
  } finally {
    rmSync(parent, { recursive: true });
  }
});
