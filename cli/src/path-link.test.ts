/** The line that puts `squash` into PATH, for the folders that a machine may have. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { linkLine } from './path-link.ts';

test('linkLine() names the first own folder of PATH that may be written, and nothing once a link is there', () => {
  const home = mkdtempSync(join(tmpdir(), "squash link's-"));
  try {
    const starter = join(home, 'squash');
    writeFileSync(starter, '');
    mkdirSync(join(home, 'bin'));
    const shell = (path: string) => `'${path.replaceAll("'", `'\\''`)}'`;
    const line = (...path: readonly string[]) => linkLine({ path, home, starter });
    assert.equal(line('/usr/bin', join(home, 'bin')), `ln -s ${shell(starter)} ${shell(join(home, 'bin'))}/`);
    assert.equal(line('/usr/bin', join(home, '.local/bin')), `alias squash=${shell(starter)}`, 'not there');
    symlinkSync(starter, join(home, 'bin/squash'));
    assert.equal(line('/usr/bin', join(home, 'bin')), undefined);
  } finally {
    rmSync(home, { recursive: true });
  }
});
