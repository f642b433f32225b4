/** Submodules by git's index, as git itself writes it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { submodulesOf } from './index-links.ts';

test('submodules are found in each form of the index, and one that can’t be read is refused', () => {
  const tree = mkdtempSync(join(tmpdir(), 'squash-index-'));
  const git = join(tree, '.git');
  const index = join(git, 'index');
  const run = (...words: readonly string[]) => execFileSync('git', ['-C', tree, ...words]);
  const add = (mode: string, path: string) =>
    run('update-index', '--add', '--cacheinfo', `${mode},${'1'.repeat(40)},${path}`);
  const found = () => submodulesOf(git, git);
  try {
    run('init', '-q');
    assert.deepEqual(found(), []);
    const modules = ['deep/er/module', 'module', 'module-of-a-name-that-is-longer'];
    for (const path of ['a', 'deep/er/file', 'modul', 'z']) add('100644', path);
    for (const path of modules) add('160000', path);
    for (const version of ['2', '3', '4']) {
      run('update-index', '--index-version', version);
      assert.deepEqual(found(), modules, version);
    }
    const bytes = readFileSync(index);
    bytes.writeUInt32BE(9, 4);
    writeFileSync(index, bytes);
    assert.throws(found, /an index of version 9.*--repo cow/);
    truncateSync(index, 300 * 1_048_576);
    assert.throws(found, /no submodules can be found/);
  } finally {
    rmSync(tree, { recursive: true });
  }
});
