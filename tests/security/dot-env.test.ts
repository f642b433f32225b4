/** The token, the port and every limit that an operator wrote into `.env` hold for the daemon that runs. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { serveWords, TestDaemon } from '../support/daemon.ts';

const token = '0123456789abcdef0123456789abcdef';

test('a daemon asks for the token that stands in .env', async () => {
  await using daemon = await TestDaemon.start();
  await daemon.stop();
  const folder = await mkdtemp('/tmp/squash-dotenv-');
  const lines = [`SQUASH_DATA=${daemon.dataDir}`, `SQUASH_PORT=${daemon.port}`, `SQUASH_AUTH_TOKEN=${token}`];
  await writeFile(join(folder, '.env'), `${lines.join('\n')}\n`);
  const child = spawn(process.execPath, serveWords(), {
    cwd: folder,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], SQUASH_LOG_FORMAT: 'json' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  try {
    let said = '';
    for await (const text of child.stderr.setEncoding('utf8')) {
      said += String(text);
      if (said.includes('daemon.ready')) break;
    }
    assert.match(said, /daemon\.ready/);
    const ask = (headers: Record<string, string>) =>
      fetch(`${daemon.url}/cgi-bin/api/sandboxes`, { headers }).then(({ status }) => status);
    assert.equal(await ask({}), 401);
    const authorization = `Bearer ${token}`;
    assert.equal(await ask({ authorization }), 200);
    const info = await fetch(`${daemon.url}/v1/info`, { headers: { authorization } });
    const { config } = (await info.json()) as {
      readonly config: readonly { name: string; source: string }[];
    };
    const sources = new Map(config.map(({ name, source }) => [name, source]));
    assert.equal(sources.get('SQUASH_AUTH_TOKEN'), '.env');
    assert.equal(sources.get('SQUASH_LOG_FORMAT'), 'environment');
    assert.equal(sources.get('SQUASH_HOST'), 'default');
  } finally {
    child.kill('SIGTERM');
    if (child.exitCode === null) await once(child, 'exit');
    await rm(folder, { recursive: true });
  }
});
