/**
 * The Python SDK at a real daemon: its own tests (`python/tests`), with every warning an error; what type checkers say of it and
 * of a program that uses it; and the wheel, in a new environment outside of the repository.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { quickstartModules, repository } from '../support/base-layer.ts';
import { endOf } from '../support/cli.ts';
import { isOnVms } from '../support/backend.ts';
import { TestDaemon } from '../support/daemon.ts';
import { patience } from '../support/wait.ts';

const runFile = promisify(execFile);
const python = '/usr/bin/python3';

let daemon: TestDaemon;
let folder: string;
before(async () => {
  daemon = await TestDaemon.start({ modules: await quickstartModules() });
  folder = await mkdtemp(join(tmpdir(), 'squash-python-'));
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** Both outputs of a program. @throws with them when it fails */
async function run(program: string, words: readonly string[], cwd: string): Promise<string> {
  const env = {
    PATH: '/usr/bin:/bin',
    HOME: folder,
    SQUASH_API: daemon.url,
    TEST_BACKEND: isOnVms ? 'vm' : '',
    PYTHONDONTWRITEBYTECODE: '1',
    MYPY_CACHE_DIR: join(folder, 'mypy'),
  };
  try {
    const { stdout, stderr } = await runFile(program, words, { cwd, env, timeout: 90_000 * patience });
    return stdout + stderr;
  } catch (error) {
    const { stdout, stderr } = error as { readonly stdout: string; readonly stderr: string };
    throw new Error(`${program} ${words.join(' ')}\n${stdout}${stderr}`, { cause: error });
  }
}

test('the tests of the Python SDK pass at a daemon, with and without await', async () => {
  // Those of contexts are run where there is an interpreter: python-contexts.test.ts.
  const words = ['-W', 'error', '-m', 'unittest', 'discover', '-t', '.', '-s', 'tests'];
  assert.match(
    await run(python, words, join(repository, 'python')),
    /Ran [4-9]\d tests[^]*\nOK(?: \(skipped=3\))?\n$/,
  );
});

test('mypy finds nothing in the Python SDK and the examples under strict, but every wrong option that the tests try', async () => {
  await writeFile(join(folder, 'program.py'), program);
  const programs = (await examples()).map(({ file }) => join(folder, file));
  for (const { file, text } of await examples()) await writeFile(join(folder, file), text);
  // An option that is wrong is marked there, and a mark on one that is not would be found.
  const words = ['-m', 'mypy', 'squash', 'tests', join(folder, 'program.py'), ...programs];
  assert.match(await run(python, words, join(repository, 'python')), /^Success/);
});

const follower = `import threading
from squash import Squash

squash = Squash()
box = squash.sandboxes.create(from_={"layers": ["000-base-test"]})
logs = []
command = "echo once >> /root/log; sleep 2; cat /root/log"
thread = threading.Thread(target=lambda: logs.append(box.exec(command).stdout))
thread.start()
while not box.files.exists("/root/log"):
    pass
process = box.start("for i in $(seq 150); do echo $i; sleep 0.02; done")
said = b""
for event in process.output():
    assert event.type != "gap"
    if event.type == "output":
        if not said:
            print("kill", flush=True)
        said += event.data
thread.join()
print(said.split() == [b"%d" % number for number in range(1, 151)], logs)
box.remove()
`;

test('a daemon that is killed costs a reader no byte, and runs no command twice', async () => {
  const child = spawn(python, ['-c', follower], {
    cwd: join(repository, 'python'),
    env: { PATH: '/usr/bin:/bin', SQUASH_API: daemon.url, PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const end = endOf(child);
  await Promise.race([once(child.stdout, 'data'), end]);
  await daemon.kill();
  await daemon.start();
  const { stdout, stderr } = await end;
  assert.equal(stdout.toString() + stderr, "kill\nTrue ['once\\n']\n");
});

const program = `import asyncio
from typing import Optional

from squash import AsyncSandbox, Sandbox, Squash

with Squash() as squash, squash.sandboxes.create(from_={"layers": ["000-base-test"]}) as box:
    code: Optional[int] = box.exec(["sh", "-c", "exit 3"], timeout_ms=5000).exit_code
    print(code)


async def main() -> None:
    async with await AsyncSandbox.create(from_={"layers": ["000-base-test"]}) as box:
        print((await box.exec("echo from a wheel")).check().stdout, end="")


asyncio.run(main())
`;

test('the wheel works where nothing else is installed, and so do the examples of the document', async () => {
  // A build writes beside its sources.
  await cp(join(repository, 'python'), join(folder, 'source'), { recursive: true });
  const build = [
    'wheel',
    '--no-build-isolation',
    '--no-deps',
    '--no-index',
    '--quiet',
    '-w',
    folder,
    './source',
  ];
  await run(python, ['-m', 'pip', ...build], folder);
  const wheel = (await readdir(folder)).find((name) => name.endsWith('.whl')) ?? '';
  assert.match(wheel, /^squash-[\d.]+-py3-none-any\.whl$/);
  await run(python, ['-m', 'venv', '--without-pip', 'clean'], folder);
  const there = join(folder, 'clean/bin/python');
  await run(python, ['-m', 'pip', '--python', there, 'install', '--no-index', '--quiet', wheel], folder);
  await writeFile(join(folder, 'program.py'), program);
  assert.equal(await run(there, ['-W', 'error', 'program.py'], folder), '3\nfrom a wheel\n');
  await Promise.all(
    (await examples()).map(async ({ file, text, printed }) => {
      // The test of contexts runs it, where the layer is.
      if (text.includes('run_code')) return;
      await writeFile(join(folder, file), text);
      const said = await run(there, ['-W', 'error', file], folder);
      assert.equal(
        said.replaceAll(/\b(?:True|False)\b/g, (word) => word.toLowerCase()),
        printed,
        text,
      );
    }),
  );
  const typed = "import squash, pathlib; print(pathlib.Path(squash.__file__).with_name('py.typed').exists())";
  assert.equal(await run(there, ['-c', typed], folder), 'True\n');
});

/** The page's programs and what each prints; those of both languages print the same. */
async function examples(): Promise<
  readonly { readonly file: string; readonly text: string; readonly printed: string }[]
> {
  const page = await readFile(join(repository, 'docs/sdk.md'), 'utf8');
  const found = [
    ...page.matchAll(
      /^```python(?: session)?\n(.*?)^```$(?:(?!^```(?:ts|python)(?: session)?$).)*?^```text\n(.*?)^```$/gms,
    ),
  ];
  assert.equal(found.length, [...page.matchAll(/^```python/gm)].length);
  assert.ok(found.length >= 11);
  return found.map(([, text = '', printed = ''], index) => ({ file: `example_${index}.py`, text, printed }));
}
