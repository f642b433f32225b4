/** Text of a sandbox's choosing must not reach the reader's terminal as anything but text. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const program = join(import.meta.dirname, '../bin/squash.mjs');
const hostile = 'a\u001b]0;b\u0007\u009b31m\u202ec';

/** What `squash ls` writes where the API gives this answer. */
async function listing(status: number, body: unknown, words: readonly string[]): Promise<string> {
  const server = createServer((_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    const call = ['ls', '--url', `http://127.0.0.1:${port}`, ...words];
    return await new Promise((resolve) => {
      execFile(process.execPath, [program, ...call], (_, stdout, stderr) => resolve(stdout + stderr));
    });
  } finally {
    server.close();
  }
}

test('refusals and JSON show control characters instead of sending them', async () => {
  const refused = await listing(500, { error: hostile, code: 'internal' }, []);
  assert.match(refused, /a\\u\{1b\}\]0;b\\u\{7\}/);
  const json = await listing(200, [{ id: 'x', task: hostile }], ['--json']);
  assert.equal(JSON.parse(json)[0].task, hostile);
  for (const text of [refused, json]) assert.doesNotMatch(text, /[^\P{Cc}\n]|\p{Cf}/u);
});

test('a misspelt command or option is told with the one that may have been meant', () => {
  const table: readonly (readonly [string, string])[] = [
    ['exce box true', 'there is no command "exce" (did you mean "exec"?); try: squash help (usage)'],
    [
      'policy sett',
      'there is no command "policy sett" (did you mean "policy set"?); try: squash help policy (usage)',
    ],
    [
      'snapshots delete dev x',
      'there is no command "snapshots delete" (did you mean "snapshots rm"?); try: squash help snapshots (usage)',
    ],
    ['help modul', 'there is no command "modul" (did you mean "module"?); try: squash help (usage)'],
    ['frobnicate', 'there is no command "frobnicate"; try: squash help (usage)'],
    ['job', '"job" needs a second word: squash job kill (usage)'],
    [
      'module lst',
      'there is no command "module lst" (did you mean "module ls"?); try: squash help module (usage)',
    ],
    ['key lst', 'there is no command "key lst" (did you mean "keys ls"?); try: squash help key (usage)'],
    ['key', '"key" needs a second word: squash keys create, squash keys ls, squash keys rm (usage)'],
    ['ls --jsn', 'there is no option --jsn here (did you mean "--json"?) (usage)'],
    ['--jsn', 'there is no option --jsn here (did you mean "--json"?) (usage)'],
    ['ls -Z', 'there is no option -Z here (usage)'],
    ['ls --all', 'there is no option --all here (usage)'],
    [
      'port-forward dev 3000:3000:3000',
      'a port is [LOCAL:]PORT, such as 3000:8000, not "3000:3000:3000" (usage)',
    ],
  ];
  for (const [words, said] of table) {
    const end = spawnSync(process.execPath, [program, ...words.split(' ')], { encoding: 'utf8' });
    assert.deepEqual([end.status, end.stderr], [2, `squash: ${said}\n`], words);
  }
});

test('--help after the first word of several commands lists them all', () => {
  const end = spawnSync(process.execPath, [program, 'codemode', '--help'], { encoding: 'utf8' });
  assert.deepEqual([end.status, end.stderr], [0, '']);
  for (const word of ['run', 'serve', 'types'])
    assert.match(end.stdout, new RegExp(`^ {2}codemode ${word} +\\S`, 'm'));
});

test('a refusal is told with what to do about it, and with --json as the API says it', async () => {
  const body = { error: 'not found: x', code: 'sandbox_not_found' };
  assert.equal(await listing(404, body, []), 'squash: not found: x; try: squash ls (sandbox_not_found)\n');
  const json = '{"error":{"code":"sandbox_not_found","message":"not found: x"}}\n';
  assert.equal(await listing(404, body, ['--json']), json);
  const refused = await listing(401, { error: 'unauthorized', code: 'unauthorized' }, []);
  assert.equal(refused, 'squash: unauthorized; set SQUASH_AUTH_TOKEN, or give --token (unauthorized)\n');
});

test('a server without TLS is told in one line', async () => {
  const server = createServer((_, response) => response.end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const words = ['ls', '--url', `https://127.0.0.1:${port}`];
  const said = await new Promise((resolve) => {
    execFile(process.execPath, [program, ...words], (_, stdout, stderr) => resolve(stdout + stderr));
  });
  server.close();
  assert.equal(
    said,
    `squash: can't reach the daemon at https://127.0.0.1:${port}: what listens there speaks no TLS that we can; without TLS the address begins with http:// (unreachable)\n`,
  );
});

test('a place that nothing can be written to is told without system calls', () => {
  const end = spawnSync(process.execPath, [program, 'box', 'learn', '-o', '/no-such-place/x', '--', 'true'], {
    encoding: 'utf8',
  });
  const said = '--output "/no-such-place/x" can\'t be written: there is no such directory (usage)';
  assert.equal(end.stderr, `squash: ${said}\n`);
});

test('a file that is not there is told without system calls', () => {
  for (const [words, said] of [
    [['policy', 'set', 'x', '--file', '/none'], 'the policy "/none": there is no such file (usage)'],
    [['tier', 'set', 'x', '/none'], 'the tier "/none": there is no such file (usage)'],
    [['create', 'x', '--body', '@/none'], '--body @/none: there is no such file (usage)'],
    [['module', 'import', '/none'], '"/none": there is no such file (file_unreadable)'],
    [['codemode', 'run', '/none'], '"/none": there is no such file (file_unreadable)'],
  ] as const) {
    const end = spawnSync(process.execPath, [program, ...words], { encoding: 'utf8' });
    assert.equal(end.stderr, `squash: can't read ${said}\n`);
  }
});

test('srt --version asks no daemon', () => {
  const end = spawnSync(process.execPath, [program, 'srt', '--version'], { encoding: 'utf8' });
  assert.deepEqual([end.status, end.stderr], [0, '']);
  assert.match(end.stdout, /^squash \d+\.\d+\.\d+\n$/);
});

test('a full disk, and a directory that is gone, are told in a sentence', () => {
  const shell = (script: string) =>
    spawnSync('sh', ['-c', script, process.execPath, program], { encoding: 'utf8' });
  const full = shell('"$0" "$1" help > /dev/full');
  assert.deepEqual(
    [full.status, full.stderr],
    [1, 'squash: the disk is full: the output is not whole (output_failed)\n'],
  );
  assert.equal(shell('"$0" "$1" help > /dev/full 2>&1').status, 1);
  assert.equal(shell('"$0" "$1" ls -Z 2> /dev/full').status, 2);
  const gone = shell('d=$(mktemp -d) && cd "$d" && rmdir "$d" && "$0" "$1" box run true');
  assert.deepEqual(
    [gone.status, gone.stderr],
    [125, 'squash: the directory that this was started in is there no more (usage)\n'],
  );
});

test('the programs say which Node they need', () => {
  for (const name of ['squash.cjs', 'srt.cjs']) {
    const older = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '22.1.0' } });
      require(process.argv[1]);`;
    const path = join(import.meta.dirname, '../bin', name);
    const end = spawnSync(process.execPath, ['-e', older, path], { encoding: 'utf8' });
    assert.equal(end.status, 1);
    assert.match(end.stderr, /^squash: Node 24 or later is needed, and this is v[^]*\/squash finds the one/);
  }
});

test('codemode types fails where no server could be asked', () => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-types-'));
  const path = join(directory, 'mcp.json');
  writeFileSync(path, JSON.stringify({ mcpServers: { gone: { command: 'no-such-program-of-ours' } } }));
  const words = ['codemode', 'types', '--tools', path];
  const end = spawnSync(process.execPath, [program, ...words], { encoding: 'utf8' });
  rmSync(directory, { recursive: true });
  assert.deepEqual([end.status, end.stdout], [1, '']);
  assert.match(end.stderr, /^squash: the MCP server "gone" is left out: there is no program/);
});

test('a wrong option without a command is named, not answered with the help', () => {
  for (const words of [['-v'], ['--verbose'], ['--json', '-x']]) {
    const end = spawnSync(process.execPath, [program, ...words], { encoding: 'utf8' });
    assert.deepEqual([end.status, end.stdout], [2, ''], end.stderr);
    assert.match(end.stderr, new RegExp(`there is no option ${words.at(-1)} here`));
  }
});
