/**
 * The README's commands, in the order in which a reader types them, on a data directory and a port of their own.
 *
 * Blocks that begin with "```sh test" are run by bash as they stand; only the port is another one.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository } from '../support/base-layer.ts';
import { freePort } from '../support/daemon.ts';
import { removeDataDirectory } from '../support/data-directory.ts';

const readme = await readFile(join(repository, 'README.md'), 'utf8');
const blocks = [...readme.matchAll(/^```sh test\n([\s\S]*?)^```$/gm)].map(([, text]) => text ?? '');

/** Runs one block and gives back what it printed to standard output. */
async function runBlock(text: string, env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', text], {
    cwd: repository,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let notes = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output += part));
  child.stderr.setEncoding('utf8').on('data', (part: string) => (notes += part));
  const [code] = await once(child, 'close');
  assert.equal(code, 0, `${text}\n${notes}\n${output}`);
  return output;
}

test('the commands of the README work in the order in which they stand there', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'squash-readme-'));
  const port = await freePort();
  const env = { ...process.env, SQUASH_DATA: dataDir, SQUASH_PORT: String(port) };
  try {
    const [quickstart, cli, http, ...more] = blocks.map((text) => text.replaceAll(':8080', `:${port}`));
    assert.ok(quickstart !== undefined && cli !== undefined && http !== undefined && more.length === 0);
    const help = await runBlock('./squash quickstart --help 2>&1', env);
    assert.match(help, /^Usage: squash quickstart/, 'before anything is installed');
    assert.equal(await runBlock(quickstart, env), '42\n');
    assert.equal(await runBlock(quickstart, env), '42\n', 'the second time');
    const answers = await runBlock(cli, env);
    assert.match(answers, /^42$/m);
    assert.match(answers, /^back$/m);
    const bodies = await runBlock(http, env);
    assert.match(bodies, /"layers":\["000-base-debian","100-python311"\]/);
    assert.match(bodies, /"stdout":"42\\n"/);
    // What a reader does next: break the sandbox, and ask for it again.
    await runBlock('./squash exec dev -- rm -rf /usr/bin/python3', env);
    await assert.rejects(runBlock('./squash quickstart', env), /"squash rm dev" removes it/);
    const other = { ...env, SQUASH_DATA: join(dataDir, 'tmp/other') };
    await assert.rejects(runBlock('./squash quickstart', other), (error: Error) => {
      assert.match(error.message, /another program listens there.*SQUASH_PORT/);
      assert.doesNotMatch(error.message, /\{"error"/);
      return true;
    });
    await runBlock('./squash stop --all', other);
  } finally {
    await runBlock('./squash stop --all', env).catch(() => 'removed below, whatever it says');
    await removeDataDirectory(dataDir);
  }
});
