/**
 * The commands of docs/, as they stand there: blocks of `sh` are run by bash in their order, each page on sandboxes of
 * its own. Only the ports are others, and what would follow or serve for ever is ended after seconds. Pages about systemd, and
 * builds from Debian's archive, are not run here.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { quickstartModules, repository } from '../support/base-layer.ts';
import { cliEnvironment, endOf } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { freePort } from '../support/free-port.ts';
import { thisTurn } from '../support/turn.ts';

let directory: string;
let daemon: TestDaemon;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'squash-documents-'));
  await writeFile(join(directory, 'key.txt'), 'sk-a-real-value\n');
  const data = join(directory, 'data');
  await mkdir(data);
  for (const path of [directory, data]) await chmod(path, 0o755);
  daemon = await TestDaemon.start({
    files: { 'host-directories.json': JSON.stringify([{ path: data }]) },
    modules: await quickstartModules(),
  });
});

after(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

async function blocksOf(page: string): Promise<readonly string[]> {
  const text = await readFile(join(repository, 'docs', page), 'utf8');
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block ?? '');
}

/** What the block printed to standard output. */
async function runBlock(block: string, env: Readonly<Record<string, string>>): Promise<string> {
  const port = await freePort();
  const text = block
    .replaceAll('localhost:8080', `localhost:${daemon.port}`)
    .replaceAll('/srv/data', join(directory, 'data'))
    .replaceAll(/^(squash .*--http) \d+.*$/gm, `timeout 3 $1 ${port} || [ $? = 124 ]`)
    .replaceAll(/^curl /gm, 'curl -sS --fail ')
    .replaceAll(/^(squash .*--follow)$/gm, 'timeout 1 $1 || [ $? = 124 ]');
  const child = spawn('bash', ['-euo', 'pipefail', '-c', text], {
    cwd: directory,
    env: { ...env, PATH: `${repository}:${env['PATH'] ?? ''}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { code, stdout, stderr } = await endOf(child);
  assert.equal(code, 0, `${text}\n${stdout.toString()}${stderr}`);
  return stdout.toString();
}

const pages = [
  ['cli.md', 2, /^42$[\s\S]*\d script\.py$/m],
  ['api.md', 2, /"stdout":"hello\\n"[\s\S]*"allowed":true/],
  [
    'processes.md',
    1,
    /"stdout":"WHOLE"[^]*"stdout":"1\\n"[^]*"stdout":"1\\n"[^]*"text":"a line of input"[^]*"exit_code":3/,
  ],
  [
    'events.md',
    3,
    /sandbox\.created +dev[\s\S]*sandbox\.destroyed +dev[\s\S]*"type":"snapshot\.created"[\s\S]*^wh_/m,
  ],
  ['sandboxes.md', 5, /^CI is 1$[\s\S]*the build[\s\S]*^! 0644 \/root\/state$[\s\S]*^one$/m],
  ['files.md', 4, /^print\("hello"\)$[\s\S]*^! main\.py$[\s\S]*event: watching/m],
  ['network.md', 1, /^connection: allowed {2}allow\[0\] preset:pypi/m],
  [
    'approvals.md',
    1,
    /^connection: asked {4}ask\[0\] \*[\s\S]*a person would be asked[\s\S]*api\.example\.com:80/m,
  ],
  ['keys.md', 2, /^key ci \(key_\w+\) of team-a, scope manage[\s\S]*"owner":"team-a"[\s\S]*sandbox\.exec/m],
  [
    'ports.md',
    4,
    /<html>[\s\S]*^ *3000 .*httpd.* token [\s\S]*squash_token=[\s\S]*^dev caller\.squash\.internal:5432 -> localhost:5432$/m,
  ],
  ['agents.md', 1, /^a command of a harness$/m],
  ['ssh.md', 2, /^root\nhello\nsftp> get notes copy$[\s\S]*^sshkey_\w+ +team-a +exec +SHA256/m],
  ['builds.md', 1, /^hello, Dockerfile$/m],
  [
    'groups.md',
    1,
    /^done {2}trusted: message\.others = hold {2}they are hungry$[\s\S]*family: dinner is ready$[\s\S]*^untrusted /m,
  ],
  ['volumes.md', 2, /^kept$[\s\S]*^monday +vol_/m],
  ['secrets.md', 4, /^sk-[\w-]{40,}$[\s\S]*"allowed_hosts":\["api.openai.com"\]/m],
] as const;

for (const [page, count, printed] of thisTurn(pages)) {
  const skip = isOnVms && page === 'volumes.md' ? 'a microVM gets a mount while it rests alone' : false;
  test(`the commands of docs/${page} work in their order`, { skip }, async () => {
    const blocks = (await blocksOf(page)).slice(0, count);
    assert.equal(blocks.length, count);
    const env = { ...cliEnvironment(daemon), XDG_CONFIG_HOME: directory };
    // As a reader has them: in one shell, with its variables.
    assert.match(await runBlock(blocks.join(''), env), printed);
    await runBlock('squash rm --all --yes', env);
  });
}

test('examples/groups shows two chats of different trust, an approval and a scheduled task, and leaves nothing', async () => {
  const env = cliEnvironment(daemon);
  assert.match(
    await runBlock(join(repository, 'examples/groups/run.sh'), env),
    new RegExp(
      [
        '^done  trusted: message\\.others = hold  they are hungry$',
        'started',
        'example-family: asked: held \\(trusted: message\\.others = hold\\)$',
        'example-family: the news of today: \\d+ messages so far$',
        // Which is said first of these two, nobody says.
        '(?=.*^\\d+ example-friends: asked: denied \\(untrusted: message\\.others = deny\\)$)',
        '(?=.*^\\d+ example-family: dinner is ready$)',
      ].join('.*'),
      'ms',
    ),
  );
  assert.equal(
    await runBlock('squash group ls; squash chat ls; squash schedule ls', env).then((text) =>
      /example-/.test(text),
    ),
    false,
  );
});

test('the commands of docs/codemode.md work without a daemon', async () => {
  const server = join(repository, 'codemode/src/mcp/notes-server.ts');
  await writeFile(
    join(directory, 'mcp.json'),
    JSON.stringify({ mcpServers: { notes: { command: process.execPath, args: [server] } } }),
  );
  await writeFile(join(directory, 'program.ts'), 'const tools: number = 6; return tools * 7;\n');
  const [block = ''] = await blocksOf('codemode.md');
  const env = { ...cliEnvironment(undefined), SQUASH_DATA: directory, SQUASH_PORT: String(await freePort()) };
  assert.match(await runBlock(block, env), /^42\ndeclare const codemode/);
});
