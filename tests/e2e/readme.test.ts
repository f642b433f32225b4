/**
 * The README's commands, in the order in which a reader types them, on a data directory and a port of their own.
 *
 * Blocks that begin with "```sh test" are run by bash as they stand; only the port is another one. Those of "```ts test" and
 * "```python test" are files, and the link that `quickstart` proposes is made in a home of the test's own.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { repository } from '../support/base-layer.ts';
import { freePort } from '../support/free-port.ts';
import { removeDataDirectory } from '../support/data-directory.ts';

const readme = await readFile(join(repository, 'README.md'), 'utf8');
const blocksOf = (kind: string, mark = ' test'): readonly string[] =>
  [...readme.matchAll(new RegExp(`^\`\`\`${kind}${mark}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, text]) => text ?? '',
  );
const blocks = blocksOf('sh');

/** Runs one block and gives back what it printed to standard output. */
async function runBlock(text: string, env: NodeJS.ProcessEnv, cwd = repository): Promise<string> {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', text], {
    cwd,
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

/** The files of both languages, where a reader of the checkout puts them: each prints what stands under them. */
async function runSessions(folder: string, env: NodeJS.ProcessEnv): Promise<void> {
  for (const name of ['node_modules', 'python', 'squash'])
    await symlink(join(repository, name), join(folder, name));
  const [printed, ...more] = blocksOf('text', '');
  assert.ok(printed !== undefined && more.length === 0);
  for (const kind of ['ts', 'python']) {
    const [source, ...others] = blocksOf(kind);
    assert.ok(source !== undefined && others.length === 0 && source.split('\n').length <= 31);
    const [, name = '', command = ''] = /^(?:\/\/|#) (session\.\w+): (.*)$/m.exec(source) ?? [];
    await writeFile(join(folder, name), source);
    assert.equal(await runBlock(command, env, folder), printed, source);
  }
}

test('the commands of the README work in the order in which they stand there', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'squash-readme-'));
  const elsewhere = await mkdtemp(join(tmpdir(), 'squash-readme-'));
  const port = await freePort();
  const home = await mkdtemp(join(tmpdir(), 'squash-home-'));
  const programs = join(home, '.local/bin');
  const env = {
    ...process.env,
    HOME: home,
    // Layers that were built before.
    XDG_CACHE_HOME: process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'),
    PATH: `${programs}:${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`,
    SQUASH_DATA: dataDir,
    SQUASH_PORT: String(port),
  };
  try {
    const [quickstart, cli, http, ...more] = blocks.map((text) => text.replaceAll(':8080', `:${port}`));
    assert.ok(quickstart !== undefined && cli !== undefined && http !== undefined && more.length === 0);
    const help = await runBlock('./squash quickstart --help 2>&1', env);
    assert.match(help, /^Usage: squash quickstart/, 'before anything is installed');
    await mkdir(programs, { recursive: true });
    assert.equal(await runBlock(quickstart, env), '42\n');
    const said = await runBlock('./squash quickstart 2>&1', env);
    assert.match(said, /^42$/m, 'the second time');
    const [, link = ''] = /^To call it "squash" from anywhere:\n\n {2}(ln -s .*)$/m.exec(said) ?? [];
    await runBlock(`${link}; cd /; squash ls`, env);
    assert.doesNotMatch(await runBlock('squash quickstart 2>&1', env), /from anywhere/, 'it is linked');
    const answers = await runBlock(cli, env);
    assert.match(answers, /^42$/m);
    assert.match(answers, /^back$/m);
    const bodies = await runBlock(http, env);
    assert.match(bodies, /"layers":\["000-base-debian","100-python311"\]/);
    assert.match(bodies, /"stdout":"42\\n"/);
    await runSessions(home, { ...env, PYTHONDONTWRITEBYTECODE: '1' });
    // What a reader does next: break the sandbox, and ask for it again.
    await runBlock('./squash exec dev -- rm -rf /usr/bin/python3', env);
    await assert.rejects(runBlock('./squash quickstart', env), /"squash rm dev" removes it/);
    const other = { ...env, SQUASH_DATA: elsewhere };
    await assert.rejects(runBlock('./squash quickstart', other), (error: Error) => {
      assert.match(error.message, /another program listens there.*SQUASH_PORT/);
      assert.doesNotMatch(error.message, /\{"error"/);
      return true;
    });
    await runBlock('./squash stop --all', other);
  } finally {
    await runBlock('./squash stop --all', env).catch(() => 'removed below, whatever it says');
    await removeDataDirectory(elsewhere);
    await removeDataDirectory(dataDir);
    await rm(home, { recursive: true });
  }
});
