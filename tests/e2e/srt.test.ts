/**
 * `squash srt` as programs call Anthropic's Sandbox Runtime: its settings, words and exit codes, over a box. Where that runtime has been
 * fetched for the benchmark the same settings and commands are given to both.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { repository as root } from '../support/base-layer.ts';
import { type CliEnd, cliEnvironment, endOf, squash, startCli } from '../support/cli.ts';
import { removeDataDirectory } from '../support/data-directory.ts';
import { expectNoLeaks, processesOf } from '../support/leaks.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;
const theirs = join(root, '.cache/bench/srt-0.0.83/node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js');
// It looks for both before it does anything.
const withoutTheirs = [theirs, '/usr/bin/rg', '/usr/bin/socat'].every((path) => existsSync(path))
  ? false
  : 'the benchmark has not fetched @anthropic-ai/sandbox-runtime and what it needs';

interface Parts {
  readonly network?: object;
  readonly filesystem?: object;
  readonly [other: string]: unknown;
}

function settingsText({ network, filesystem, ...others }: Parts): string {
  return JSON.stringify({
    network: { allowedDomains: [], deniedDomains: [], ...network },
    filesystem: { denyRead: [], allowWrite: [], denyWrite: [], ...filesystem },
    ...others,
  });
}

describe('squash srt', { skip }, () => {
  let scratch: string;
  /** HOME, in the user's real one: the box's `/tmp` is its own. */
  let home: string;
  let project: string;
  let env: Record<string, string>;

  before(() => {
    scratch = mkdtempSync(join(tmpdir(), ownedPrefix('srt')));
    home = mkdtempSync(join(userInfo().homedir, 'squash-srt-test-'));
    project = join(home, 'project');
    for (const directory of ['project/.git/hooks', 'project/sub/.git/hooks', 'out', '.ssh'])
      mkdirSync(join(home, directory), { recursive: true });
    execFileSync('git', ['init', '-q', project]);
    for (const [name, text] of [
      ['.ssh/id_rsa', 'a key\n'],
      ['notes', 'notes\n'],
      ['project/file.txt', 'as it was\n'],
      ['project/.env', 'KEY=1\n'],
      ['project/.bashrc', '\n'],
      ['project/sub/.mcp.json', '{}\n'],
    ] as const)
      writeFileSync(join(home, name), text);
    env = {
      HOME: home,
      SQUASH_BOX_DATA: join(scratch, 'data'),
      SQUASH_DATA: join(scratch, 'none'),
      SQUASH_IDLE_EXIT_S: '2',
      SQUASH_MEMORY_RESERVE_MB: '0',
      SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.1',
      FAKE_SECRET_TOKEN: 'of-the-shell',
      MASKED: 'a-value-that-is-masked',
      PLAIN: 'as it is',
    };
  });

  after(async () => {
    const data = join(scratch, 'data');
    await waitFor('the daemon to end', () => processesOf(data).length === 0, 60_000);
    await expectNoLeaks(data);
    rmSync(home, { recursive: true, force: true });
    await removeDataDirectory(scratch);
  });

  function written(parts: Parts | string): string {
    const path = join(home, 'settings.json');
    writeFileSync(path, typeof parts === 'string' ? parts : settingsText(parts));
    return path;
  }

  async function srt(words: readonly string[], parts?: Parts | string): Promise<CliEnd> {
    const named = parts === undefined ? [] : ['-s', written(parts)];
    return await squash(undefined, ['srt', ...named, ...words], { cwd: project, env });
  }

  /** Of the settings that a person begins with: his project, and nothing of the home. */
  const usual: Parts = {
    filesystem: { denyRead: ['~'], allowRead: ['.'], allowWrite: ['.'], denyWrite: ['.env'] },
  };

  it('runs commands with the exit codes that they have there', async () => {
    const rows: readonly (readonly [readonly string[], number, string?])[] = [
      [['echo', 'hi'], 0, 'hi\n'],
      [['--', 'echo', '-n', 'a  b', '$HOME;x'], 0, 'a  b $HOME;x'],
      [['-c', 'echo $((1 + 2)) | cat; exit 7'], 7, '3\n'],
      [['no-such-program'], 127],
      [['-c', 'kill -KILL $$'], 137],
      [['-c', 'kill -TERM $$'], 143],
      [[], 1],
      [['--no-such-option'], 1],
      [['-s', join(home, 'missing.json'), 'echo', 'ran'], 1, ''],
      [['--control-fd', '99', 'echo', 'ran'], 1, ''],
      [['proxy'], 1, ''],
    ];
    for (const [words, code, text] of rows) {
      const end = await srt(words);
      assert.equal(end.code, code, `${words.join(' ')}: ${end.stderr}`);
      if (text !== undefined) assert.equal(end.stdout.toString(), text, words.join(' '));
      if (code === 1) assert.match(end.stderr, /^squash: /, words.join(' '));
    }
    assert.match((await srt([])).stderr, /No command specified/);
  });

  it('without settings lets it read, and neither write nor reach anything', async () => {
    const script =
      'cat ~/notes file.txt; echo x > file.txt || echo no; (exec 3<>/dev/tcp/192.0.2.1/80 && head -1 <&3 | grep .) 2>/dev/null || echo unreached';
    const end = await srt(['-c', script]);
    assert.equal(end.stdout.toString(), 'notes\nas it was\nno\nunreached\n', end.stderr);
    assert.match(end.stderr, /Read-only file system/);
    writeFileSync(join(home, '.srt-settings.json'), settingsText({ filesystem: { allowWrite: ['.'] } }));
    assert.equal((await srt(['-c', 'echo x > new.txt'])).code, 0);
    rmSync(join(home, '.srt-settings.json'));
    rmSync(join(project, 'new.txt'));
  });

  it('refuses settings that it can’t hold, and runs nothing', async () => {
    const rows: readonly (readonly [Parts | string, RegExp])[] = [
      ['', /empty/],
      ['{"network": ', /no JSON/],
      ['{}', /network is missing/],
      ['{"a":'.repeat(50_000), /brackets/],
      ['\ufffe'.repeat(3), /no JSON/],
      [' '.repeat(2_000_000), /more than/],
      [{ netwrok: {} }, /"netwrok" is unknown; the nearest known key is "network"/],
      [{ filesystem: { denyreed: ['~'] } }, /"denyreed" in "filesystem" is unknown/],
      [{ filesystem: { denyRead: ['a\nb'] } }, /control characters/],
      [{ filesystem: { denyRead: [7] } }, /filesystem\.denyRead/],
      [{ network: { allowedDomains: ['*'] } }, /too wide/],
      [{ network: { httpProxyPort: 3128 } }, /network\.httpProxyPort/],
      [{ filesystem: { disabled: true } }, /filesystem\.disabled/],
      [{ filesystem: { allowWrite: ['/etc/shadow'] } }, /closed whatever is asked/],
    ];
    for (const [parts, pattern] of rows) {
      const end = await srt(['touch', join(home, 'out/ran')], parts);
      assert.equal(end.code, 1, end.stderr);
      assert.match(end.stderr, pattern);
    }
    assert.deepEqual(readdirSync(join(home, 'out')), []);
  });

  it('hides, opens and keeps what the settings say', async () => {
    const rows: readonly (readonly [string, string])[] = [
      ['cat ~/.ssh/id_rsa 2>&1 | grep -c "No such file"', '1'],
      ['cat ~/notes 2>&1 | grep -c "No such file"', '1'],
      ['cat file.txt', 'as it was'],
      ['echo x > file2.txt && cat file2.txt && rm file2.txt', 'x'],
      ['echo x >> .env || echo kept', 'kept'],
      ['echo x >> .bashrc || echo kept', 'kept'],
      ['echo x >> .git/config || echo kept', 'kept'],
      ['echo x > .git/hooks/pre-commit || echo kept', 'kept'],
      ['echo x > sub/.git/hooks/pre-commit || echo kept', 'kept'],
      ['echo x > sub/.mcp.json || echo kept', 'kept'],
      ['mv .git .git2 || echo kept', 'kept'],
      ['mv sub/.git sub/.git2 || echo kept', 'kept'],
      ['unshare -r true || echo refused', 'refused'],
      ['unshare -m true || echo refused', 'refused'],
      ['echo x > $(mktemp) && echo $TMPDIR', '/tmp'],
      ['git add . && git status --short | head -1', 'A  .bashrc'],
      ['echo ${FAKE_SECRET_TOKEN-none} $PLAIN $SANDBOX_RUNTIME $HOME', `none as it is 1 ${home}`],
    ];
    const script = rows.map(([line]) => `{ ${line}; } 2>/dev/null; echo ---`).join('\n');
    const { stdout, stderr, code } = await srt(['-c', script], usual);
    assert.equal(code, 0, stderr);
    const found = stdout
      .toString()
      .split('---\n')
      .map((text) => text.trim());
    for (const [at, [line, expected]] of rows.entries())
      assert.equal(found[at], expected, `${line}: ${stderr}`);
    assert.ok(!stderr.includes('the command made'), stderr);
    execFileSync('git', ['-C', project, 'reset', '-q']);
    // There the checkout is full of names while a command runs.
    const names = readdirSync(project).toSorted();
    assert.deepEqual(names, ['.bashrc', '.env', '.git', 'file.txt', 'sub']);
  });

  it('runs over a repository with a submodule and a linked worktree, whose .git is a file', async () => {
    for (const name of ['module', 'tree']) {
      mkdirSync(join(project, name));
      writeFileSync(join(project, name, '.git'), 'gitdir: ../.git\n');
    }
    const lines = ['module', 'tree'].map((name) => `{ echo x > ${name}/.git || mv ${name}/.git away; }`);
    const end = await srt(['-c', `${lines.join(' && ')} || echo kept; echo x > module/new`], usual);
    assert.deepEqual([end.code, end.stdout.toString()], [0, 'kept\n'], end.stderr);
    assert.equal(readFileSync(join(project, 'module/new'), 'utf8'), 'x\n');
    for (const name of ['module', 'tree']) rmSync(join(project, name), { recursive: true });
  });

  it('tells of names that git obeys and the command made', async () => {
    const end = await srt(['-c', 'echo ../elsewhere > .git/commondir'], usual);
    rmSync(join(project, '.git/commondir'));
    assert.equal(end.code, 0);
    assert.match(end.stderr, new RegExp(`the command made ${project}/\\.git/commondir, which programs obey`));
  });

  it('keeps values of credentials outside', async () => {
    const parts: Parts = {
      network: { allowedDomains: ['api.example.com'] },
      filesystem: { denyRead: [], allowWrite: [], denyWrite: [] },
      credentials: {
        envVars: [
          { name: 'MASKED', mode: 'mask' },
          { name: 'PLAIN', mode: 'deny' },
          { name: 'NOT_SET', mode: 'mask' },
        ],
        files: [{ path: '~/notes', mode: 'deny' }],
      },
    };
    const end = await srt(['-c', 'echo ${PLAIN-none} ${NOT_SET-none}; echo ${MASKED:?}; cat ~/notes'], parts);
    const [others, masked = ''] = end.stdout.toString().split('\n');
    assert.equal(others, 'none none', end.stderr);
    assert.ok(masked !== '' && masked !== env['MASKED'], masked);
    assert.notEqual(end.code, 0);
  });

  it('takes new rules for the network of a command that runs, and none that are wrong', async () => {
    await using server = createServer((socket) => socket.end('reached\n'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
    const look = `(exec 3<>/dev/tcp/host.squash.internal/${port} && head -1 <&3) 2>/dev/null`;
    const script = `${look} || echo closed
until ${look}; do sleep 0.05; done
read line; ${look} && echo still
read line; while ${look} > /dev/null; do sleep 0.05; done; echo shut`;
    const child = startCli(undefined, ['srt', '-s', written({}), '--control-fd', '3', '-c', script], {
      cwd: project,
      env,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    });
    const control = child.stdio[3] as NodeJS.WritableStream;
    using _killed = { [Symbol.dispose]: () => void child.kill('SIGKILL') };
    let [out, errors] = ['', ''];
    child.stdout?.on('data', (part: Buffer) => (out += part.toString()));
    child.stderr?.on('data', (part: Buffer) => (errors += part.toString()));
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    await waitFor('the first look', () => out.includes('closed'), 30_000);
    control.write(`${settingsText({ network: { allowedDomains: [`localhost:${port}`] } })}\n`);
    await waitFor('the host to be open', () => out.includes('reached'), 10_000);
    control.write('{"network": {}}\n{"nonsense\n');
    await waitFor(
      'the refusals',
      () => (errors.match(/the rules are as they were/g) ?? []).length === 2,
      10_000,
    );
    child.stdin?.write('go\n');
    await waitFor('the host to be open still', () => out.includes('still'), 10_000);
    control.write(`${settingsText({})}\n`);
    child.stdin?.write('go\n');
    await waitFor('the host to be shut', () => out.includes('shut'), 10_000);
    assert.equal(await ended, 0, errors);
  });

  it('ends with 0 where it is asked to end itself, as the program `srt` too', async () => {
    const child = spawn(process.execPath, [join(root, 'cli/bin/srt.cjs'), '-c', 'echo ready; sleep 600'], {
      cwd: project,
      env: { ...cliEnvironment(undefined), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const seen = new Promise((resolve) => child.stdout.once('data', resolve));
    const end = endOf(child);
    await seen;
    child.kill('SIGTERM');
    assert.equal((await end).code, 0, (await end).stderr);
    const boxes = await squash(undefined, ['box', 'ps', '-q'], { cwd: project, env });
    assert.equal(boxes.stdout.toString(), '', 'nothing is kept');
  });

  it('becomes a policy by `box policy import`, and what can’t be had is told', async () => {
    const box = async (words: readonly string[]): Promise<CliEnd> =>
      await squash(undefined, ['box', 'policy', ...words], { cwd: project, env });
    const lacking = { ...usual, credentials: { files: [{ path: '~/.npmrc', mode: 'mask' }] } };
    const path = written(lacking);
    const refused = await box(['import', 'srt', path]);
    assert.deepEqual([refused.code, refused.stdout.toString()], [1, '']);
    assert.match(refused.stderr, /credentials\.files\[0\]: /);
    const wrong = await box(['import', 'srt', written('{}')]);
    assert.deepEqual([wrong.code, wrong.stdout.toString()], [1, '']);
    written({ ...lacking, allowNestedUserNamespaces: true });
    const partial = await box(['import', 'srt', path, '--partial']);
    assert.equal(partial.code, 0, partial.stderr);
    assert.match(partial.stderr, /^left out: credentials\.files\[0\]/m);
    const policy = join(home, 'policy.jsonc');
    writeFileSync(policy, partial.stdout);
    const checked = await box(['check', policy]);
    assert.equal(checked.code, 0, checked.stdout.toString());
    const run = [
      'box',
      'run',
      '--policy',
      policy,
      '--',
      'sh',
      '-c',
      'ls ~; echo x > made; echo x >> .git/config',
    ];
    const end = await squash(undefined, run, { cwd: project, env });
    assert.equal(readFileSync(join(project, 'made'), 'utf8'), 'x\n', end.stderr);
    rmSync(join(project, 'made'));
    assert.match(end.stderr, /Read-only file system/);
    writeFileSync(
      join(project, 'deer.toml'),
      'base_branch = "main"\n[network]\nallowlist_extra = ["a.example"]\n',
    );
    assert.match((await box(['import', 'deer'])).stderr, /base_branch/);
    assert.match((await box(['import', 'deer', '--partial'])).stdout.toString(), /"a\.example"/);
    rmSync(join(project, 'deer.toml'));
  });

  it('does what the original does with the same settings', { skip: withoutTheirs }, async () => {
    const parts: Parts = { filesystem: { denyRead: ['~/notes'], allowWrite: ['.'], denyWrite: ['.env'] } };
    const path = written(parts);
    const lines = [
      'cat file.txt',
      'cat ../notes',
      'echo x > made && rm made',
      'echo x >> .env',
      'echo x > ../out/made',
      'echo x >> .git/config',
      'echo x > .git/hooks/pre-commit',
      'mv .git .git2',
      'unshare -r true',
      'echo $PLAIN',
    ];
    const scripts = [
      lines.map((line) => `(${line}) 2>/dev/null && echo yes || echo no`).join('\n'),
      'exit 7',
      'no-such-program',
      'kill -TERM $$',
    ];
    for (const script of scripts) {
      const own = await squash(undefined, ['srt', '-s', path, '-c', script], { cwd: project, env });
      const other = spawnSync(process.execPath, [theirs, '-s', path, '-c', script], {
        cwd: project,
        env: { ...cliEnvironment(undefined), ...env },
        encoding: 'utf8',
      });
      assert.deepEqual(
        [own.code, own.stdout.toString()],
        [other.status, other.stdout],
        `${script}: ${own.stderr} / ${other.stderr}`,
      );
    }
  });
});
