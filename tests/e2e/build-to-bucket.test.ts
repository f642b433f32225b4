/** The whole way: a Dockerfile, an image, a sandbox, a snapshot in a bucket, and the sandbox again on a machine that has nothing of it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { TestBucket } from '../support/bucket.ts';
import { squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';

const words = (third: string): string => `FROM start:1
ENV GREETING=hello
WORKDIR /srv
RUN echo first >first && rm /start
RUN ${third}
RUN echo last >last
`;

test('a sandbox of a built image is back, with files and image, where the machine it was on is gone', async () => {
  await using bucket = await TestBucket.start();
  const context = mkdtempSync(join(tmpdir(), 'squash-whole-'));
  const machine = (): Promise<TestDaemon> =>
    TestDaemon.start({ env: { ...bucket.environment, SQUASH_EPHEMERAL: '1' } });
  let id = '';
  try {
    await using one = await machine();
    await squashOk(one, ['create', 'start', '--layers', '000-base-test']);
    await squashOk(one, ['exec', 'start', '--', 'sh', '-c', 'echo >/start']);
    await squashOk(one, ['image', 'commit', 'start', 'start:1']);
    const build = async (third: string): Promise<readonly string[]> => {
      writeFileSync(join(context, 'Dockerfile'), words(third));
      const { code, stderr } = await squash(one, ['build', '-t', 'app:1', context]);
      assert.equal(code, 0, stderr);
      return [...stderr.matchAll(/^\[\d\] (CACHED|done)/gm)].map(([, how = '']) => how);
    };
    assert.deepEqual(await build('echo one >third'), ['done', 'done', 'done', 'done']);
    assert.deepEqual(await build('echo two >third'), ['done', 'CACHED', 'done', 'done']);
    id = await squashOk(one, ['create', '--image', 'app:1']);
    await squashOk(one, ['exec', id, '--', 'sh', '-c', 'echo mine >mine; rm first']);
    await squashOk(one, ['snapshot', id, 'kept']);
    await squashOk(one, ['exec', id, '--', 'sh', '-c', 'echo later >later']);
    await squashOk(one, ['rm', id]);
  } finally {
    rmSync(context, { recursive: true });
  }
  // Its data directory is gone by now.
  await using other = await machine();
  await squashOk(other, ['create', id, '--layers', '000-base-test']);
  const look = 'pwd; echo "$GREETING"; ls; cat third mine later; test ! -e /start';
  const expected = ['/srv', 'hello', 'last', 'later', 'mine', 'third', 'two', 'mine', 'later'];
  assert.equal(await squashOk(other, ['exec', id, '--', 'sh', '-c', look]), expected.join('\n'));
  await squashOk(other, ['restore', id, 'kept']);
  assert.equal(await squashOk(other, ['exec', id, '--', 'sh', '-c', 'pwd; ls']), '/srv\nlast\nmine\nthird');
});
