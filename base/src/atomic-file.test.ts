/** A file is the old or the new one, and a failure leaves nothing beside it. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { removeUnfinished, writeFileAtomic } from './atomic-file.ts';

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

test('what a write left that was cut short is removed, and nothing beside it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-file-'));
  try {
    mkdirSync(join(directory, 'inner/deep'), { recursive: true });
    for (const place of ['', 'inner', 'inner/deep'])
      for (const name of ['file', 'file.0123456789ab.new', 'file.new'])
        writeFileSync(join(directory, place, name), '');
    mkdirSync(join(directory, 'd.0123456789ab.new'));
    await removeUnfinished(directory, 0);
    assert.deepEqual(readdirSync(directory).sort(), ['d.0123456789ab.new', 'file', 'file.new', 'inner']);
    assert.equal(readdirSync(join(directory, 'inner')).length, 4);
    await removeUnfinished(directory, 1);
    assert.deepEqual(readdirSync(join(directory, 'inner')).sort(), ['deep', 'file', 'file.new']);
    assert.equal(readdirSync(join(directory, 'inner/deep')).length, 3);
    await removeUnfinished(join(directory, 'missing'), 1);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
