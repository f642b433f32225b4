/** The Python SDK's contexts at real kernels, in the layer that users build: its own tests, and the session of docs/sdk.md. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { repository } from '../support/base-layer.ts';
import { interpreterModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';

const python = '/usr/bin/python3';

let daemon: TestDaemon;
let folder: string;
before(async () => {
  daemon = await TestDaemon.start({ modules: await interpreterModules() });
  folder = await mkdtemp(join(tmpdir(), 'squash-python-'));
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** Both outputs. @throws with them when it fails */
async function run(words: readonly string[]): Promise<string> {
  const env = {
    PATH: '/usr/bin:/bin',
    SQUASH_API: daemon.url,
    SQUASH_TEST_INTERPRETER: '1',
    PYTHONDONTWRITEBYTECODE: '1',
    PYTHONPATH: join(repository, 'python'),
  };
  const { stdout, stderr } = await promisify(execFile)(python, words, { cwd: folder, env, timeout: 120_000 });
  return stdout + stderr;
}

test('cells keep state, show pictures, stream, and are interrupted, by the Python SDK', async () => {
  assert.match(await run(['-W', 'error', '-m', 'unittest', 'tests.test_contexts']), /Ran 3 tests[^]*\nOK\n$/);
});

test('the session of docs/sdk.md has thirty lines at most, and makes its picture', async () => {
  const page = await readFile(join(repository, 'docs/sdk.md'), 'utf8');
  const [, session = ''] = /^```python session\n([\s\S]*?)^```$/m.exec(page) ?? [];
  assert.ok(session.split('\n').length <= 30);
  await writeFile(join(folder, 'session.py'), session);
  assert.match(await run(['session.py']), /mean[^]*KeyError[^]*^53 83$[^]*^1\n2\n3\n42$/m);
  assert.equal((await readFile(join(folder, 'sales.png'))).subarray(1, 4).toString(), 'PNG');
});
