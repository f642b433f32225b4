/** The Python SDK's contexts at real kernels, in the layer that users build: its own tests, and the session of docs/sdk.md. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { repository } from '../support/base-layer.ts';
import { interpreterModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { checkSession, isSingleId, noApt, sessionSettings } from '../support/data-session.ts';
import { patience } from '../support/wait.ts';

const python = '/usr/bin/python3';

let daemon: TestDaemon;
let folder: string;
before(async () => {
  daemon = await TestDaemon.start({ modules: await interpreterModules(), env: await sessionSettings() });
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
  const { stdout, stderr } = await promisify(execFile)(python, words, {
    cwd: folder,
    env,
    timeout: 120_000 * patience,
  });
  return stdout + stderr;
}

test('cells keep state, show pictures, stream, and are interrupted, by the Python SDK', async () => {
  assert.match(await run(['-W', 'error', '-m', 'unittest', 'tests.test_contexts']), /Ran 3 tests[^]*\nOK\n$/);
});

test('the program of docs/sdk.md that runs code prints what stands under it, in Python too', async () => {
  const page = await readFile(join(repository, 'docs/sdk.md'), 'utf8');
  const [, text = '', printed] =
    /## Code in an interpreter\n.*?^```python\n(.*?)^```\n\n```text\n(.*?)^```$/ms.exec(page) ?? [];
  assert.equal(await run(['-c', text]), printed);
});

test('the session of docs/sdk.md in Python prints what stands under it, makes its picture, and reaches nothing but Debian', async (t) => {
  if (await isSingleId(daemon)) return t.skip(noApt);
  await checkSession('python', folder, (text) => run(['-c', text]));
});
