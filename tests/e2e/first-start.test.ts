/** The daemon on a directory that is not there yet, started under the original's name `sq-start`: what it says, and that it is right. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { baseLayer, repository } from '../support/base-layer.ts';
import { freePort } from '../support/free-port.ts';
import { expectNoLeaks } from '../support/leaks.ts';
import { ownedPrefix, removeAbandoned } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const program = join(repository, 'packaging/bin/sq-start');

test('sq-start starts on an empty data directory and says how to get a first layer', async () => {
  const parent = await mkdtemp(join(tmpdir(), ownedPrefix('first')));
  const env = {
    PATH: process.env['PATH'] ?? '/usr/bin:/bin',
    HOME: process.env['HOME'] ?? '/root',
    SQUASH_DATA: join(parent, 'data'),
    SQUASH_PORT: String(await freePort()),
    SQUASH_LOG_FORMAT: 'json',
  };
  const squash = (...words: string[]) =>
    spawnSync(join(repository, 'squash'), words, { encoding: 'utf8', env, cwd: parent });
  const child = spawn(program, ['squashd'], { cwd: parent, env, stdio: ['ignore', 'pipe', 'pipe'] });
  try {
    let said = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (said += text));
    await waitFor('the remedy', () => {
      assert.equal(child.exitCode, null, said);
      return said.includes('layers.none');
    });
    assert.match(said, /"squashd" is served by: squash serve/);
    assert.match(said, /\\"squash quickstart\\" builds one, \\"squash module import FILE\\" takes one in/);
    await waitFor('an answer', () => squash('ls').status === 0);
    assert.match(squash('create', 'dev').stderr, /module not found/);
    assert.match(squash('module', 'ls').stderr, /squash quickstart/, 'who looks is told as well');
    const taken = squash('module', 'import', await baseLayer(), '--name', '000-base-debian');
    assert.equal(taken.status, 0, taken.stderr);
    assert.equal(squash('run', '000-base-debian', '--', 'echo', 'there').stdout, 'there\n');
    assert.equal(squash('stop', '--all').status, 0);
    if (child.exitCode === null) await once(child, 'exit');
    assert.equal(child.exitCode, 0, said);
    await expectNoLeaks(parent);
  } finally {
    child.kill('SIGKILL');
    await removeAbandoned(parent);
  }
});

test('a data directory that can not be one ends every start at once, with what is wrong', () => {
  for (const words of [
    ['serve'],
    ['serve', '--detach'],
    ['quickstart'],
    ['doctor'],
    ['doctor', '--repair'],
  ]) {
    const { status, stderr } = spawnSync(
      process.execPath,
      [join(repository, 'cli/bin/squash.mjs'), ...words],
      {
        encoding: 'utf8',
        env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: '/root', SQUASH_DATA: '/proc/x' },
        timeout: 20_000,
      },
    );
    assert.equal(status, words.length === 1 && words[0] === 'serve' ? 78 : 1, stderr);
    assert.match(
      stderr,
      /SQUASH_DATA is "\/proc\/x": no directory can be made there[^]*\(config_invalid\)$/m,
    );
  }
});

test('doctor makes nothing, not even for a moment, where others could put a link into the path', () => {
  const open = mkdtempSync(join(tmpdir(), 'squash-open-'));
  try {
    chmodSync(open, 0o777);
    const before = statSync(open).mtimeMs;
    const doctor = spawnSync(process.execPath, [join(repository, 'cli/bin/squash.mjs'), 'doctor'], {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: '/root', SQUASH_DATA: join(open, 'a/b') },
      timeout: 60_000,
    });
    assert.match(doctor.stdout, /namespaces/, doctor.stderr);
    assert.equal(statSync(open).mtimeMs, before);
  } finally {
    rmSync(open, { recursive: true });
  }
});

test('sq-start refuses what the original’s did not know', () => {
  const { status, stderr } = spawnSync(program, ['--port=1'], { encoding: 'utf8' });
  assert.equal(status, 2);
  assert.match(stderr, /^usage: sq-start/);
});
