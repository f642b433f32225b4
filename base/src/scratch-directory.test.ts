/** What a killed process left goes with the next one; what a living one has stays. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeScratchDirectory } from './scratch-directory.ts';

test('a scratch directory goes when its owner was killed and the next one is made, and not before', async () => {
  const parent = mkdtempSync(join(tmpdir(), 'squash-scratch-'));
  try {
    const owner = spawn('sleep', ['600']);
    await once(owner, 'spawn');
    const left = makeScratchDirectory(parent, 'build', owner.pid);
    writeFileSync(join(left, 'file'), 'x');
    const own = makeScratchDirectory(parent, 'build');
    assert.ok(existsSync(left));
    owner.kill('SIGKILL');
    await once(owner, 'exit');
    const other = makeScratchDirectory(parent, 'other');
    assert.ok(existsSync(left));
    makeScratchDirectory(parent, 'build');
    assert.deepEqual([left, own, other].map(existsSync), [false, true, true]);
  } finally {
    rmSync(parent, { recursive: true });
  }
});
