/**
 * The `curl` lines of the original's README, sent by curl as they stand there: no content type, the original's
 * layer names, only the port is this test's.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { baseLayer } from '../support/base-layer.ts';
import { TestDaemon } from '../support/daemon.ts';

const run = promisify(execFile);

/** Stands in for an interpreter: what is tested is that its arguments arrive, quotes and all. */
const interpreter = '#!/bin/sh\n[ "$1" = -c ] && [ "$2" = "print(42)" ] && echo 42\n';
const agent = '#!/bin/sh\necho "agent $*"\n';

let directory: string;
let daemon: TestDaemon;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'squash-readme-'));
  daemon = await TestDaemon.start({
    modules: {
      '000-base-alpine': await baseLayer(),
      '090-sqlite-libs': await program('sqlite-libs', 'usr/lib/nothing', ''),
      '100-python312': await program('python', 'usr/bin/python3', interpreter),
      '200-nullclaw': await program('nullclaw', 'usr/local/bin/nullclaw', agent),
    },
  });
});

after(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

async function program(name: string, path: string, text: string): Promise<string> {
  const root = join(directory, name);
  const file = join(root, path);
  await mkdir(join(file, '..'), { recursive: true });
  await writeFile(file, text);
  await chmod(file, 0o755);
  const packed = `${root}.squashfs`;
  await run('mksquashfs', [root, packed, '-all-root', '-noappend', '-no-progress', '-quiet']);
  return packed;
}

/** What a shell prints for a line of a document. */
async function shell(line: string): Promise<string> {
  const { stdout } = await run('/bin/sh', [
    '-c',
    line.replaceAll('localhost:8080', `localhost:${daemon.port}`),
  ]);
  return stdout;
}

test('the original’s quick start works as it stands', async () => {
  const created = await shell(`curl -X POST localhost:8080/cgi-bin/api/sandboxes \\
  -d '{"id":"dev","layers":"000-base-alpine,100-python312"}'`);
  assert.equal(JSON.parse(created).mounted, true);
  const ran = await shell(`curl -X POST localhost:8080/cgi-bin/api/sandboxes/dev/exec \\
  -d '{"cmd":"python3 -c \\"print(42)\\""}'`);
  assert.deepEqual([JSON.parse(ran).stdout, JSON.parse(ran).exit_code], ['42\n', 0]);
});

test('the original’s agent lines work as they stand', async () => {
  const created = await shell(`curl -X POST localhost:8080/cgi-bin/api/sandboxes \\
  -d '{"id":"ai","layers":"000-base-alpine,090-sqlite-libs,200-nullclaw"}'`);
  assert.equal(JSON.parse(created).id, 'ai');
  for (const [cmd, printed] of [
    ['/usr/local/bin/nullclaw --version', 'agent --version\n'],
    [
      '/usr/local/bin/nullclaw onboard --api-key \\"$SQUASH_ANTHROPIC_KEY\\" --interactive',
      'agent onboard --api-key  --interactive\n',
    ],
    [
      '/usr/local/bin/nullclaw agent -m \\"Solve this\\" --skill coding',
      'agent agent -m Solve this --skill coding\n',
    ],
  ] as const) {
    const ran = await shell(
      `curl -X POST localhost:8080/cgi-bin/api/sandboxes/ai/exec \\\n  -d '{"cmd":"${cmd}"}'`,
    );
    assert.equal(JSON.parse(ran).stdout, printed);
  }
});

test('the original’s bodies for activate, snapshot and restore work', async () => {
  const post = (action: string, body: string): Promise<string> =>
    shell(`curl -s -X POST localhost:8080/cgi-bin/api/sandboxes/dev/${action} -d '${body}'`);
  await shell(`curl -s -X POST localhost:8080/cgi-bin/api/sandboxes -d '{"id":"dev"}'`);
  assert.ok(JSON.parse(await post('activate', '{"module": "200-nullclaw"}')).layers.includes('200-nullclaw'));
  assert.equal(JSON.parse(await post('snapshot', '{"label": "my-checkpoint"}')).snapshot, 'my-checkpoint');
  assert.equal(
    JSON.parse(await post('restore', '{"label": "my-checkpoint"}')).active_snapshot,
    'my-checkpoint',
  );
  const body = '{"cmd": "python3 -c \\"print(42)\\"", "workdir": "/", "timeout": 300}';
  assert.equal(JSON.parse(await post('exec', body)).exit_code, 0);
});
