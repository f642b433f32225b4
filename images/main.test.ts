/** A build that is killed leaves nothing behind the next one: no file, no tool that goes on. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { processes } from '../tests/support/leaks.ts';
import { waitFor } from '../tests/support/wait.ts';

const program = join(import.meta.dirname, 'main.ts');

test('what a killed build has left is gone with the next one', async () => {
  const place = mkdtempSync(join(tmpdir(), 'squash-killed-'));
  try {
    const tree = join(place, 'tree');
    const scratch = join(place, 'tmp');
    for (const path of [tree, scratch]) mkdirSync(path);
    // Some seconds of work.
    for (let count = 0; count < 24; count += 1)
      writeFileSync(join(tree, String(count)), randomBytes(4_194_304).toString('base64'));
    const env = { ...process.env, TMPDIR: scratch };
    // In between stands who takes the layer: it is killed as well, or the next build may not touch what it has.
    const words = ['-c', '"$0" "$@"; :', process.execPath, program, 'from-dir', tree, '300-x'];
    const caller = spawn('sh', words, { env, stdio: 'ignore' });
    const ofBuild = (name: string): readonly number[] =>
      processes()
        .filter(({ command }) => command.startsWith(name) && command.includes(tree))
        .map(({ pid }) => pid);
    await waitFor('the tool to run', () => ofBuild('mksquashfs').length > 0);
    caller.kill('SIGKILL');
    for (const pid of ofBuild(process.execPath)) process.kill(pid, 'SIGKILL');
    await once(caller, 'exit');
    await waitFor('the tool to end', () => ofBuild('mksquashfs').length === 0);
    assert.equal(readdirSync(scratch).length, 1);
    const small = join(place, 'small');
    mkdirSync(small);
    const said = execFileSync(process.execPath, [program, 'from-dir', small, '300-y'], {
      env,
      encoding: 'utf8',
    });
    assert.deepEqual(
      readdirSync(scratch).map((name) => said.includes(name)),
      [true],
    );
  } finally {
    rmSync(place, { recursive: true });
  }
});
