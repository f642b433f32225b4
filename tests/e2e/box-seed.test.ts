/**
 * What deer's page promises of its sandbox, sentence by sentence (seed 004), tried by programs in a box. Each is also tried without the wall,
 * where it has to fail: a promise that this machine keeps by itself shows nothing.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type CliEnd, squash, startCli } from '../support/cli.ts';
import { ownedPrefix, removeAbandoned } from '../support/owned-directory.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;

/** Of the seed's list, what an ordinary user may make in his own home. */
const alwaysDenied = ['.ssh', '.aws', '.kube', '.local/share/keyrings', '.password-store'];

describe('the promises of a local run', { skip }, () => {
  const { homedir: home } = userInfo();
  const made: string[] = [];
  let data: string;
  let repository: string;
  let claude: string;
  let dotfile: string;
  let temporary: string;
  let env: Record<string, string>;

  before(() => {
    data = join(mkdtempSync(join(tmpdir(), ownedPrefix('box-seed'))), 'data');
    repository = join(mkdtempSync(join(home, 'squash-seed-test-')), 'project');
    mkdirSync(repository);
    claude = mkdtempSync(join(home, '.claude-squash-test-'));
    dotfile = mkdtempSync(join(home, '.squash-seed-test-'));
    temporary = mkdtempSync(join(tmpdir(), 'squash-seed-'));
    for (const directory of [claude, dotfile, temporary])
      writeFileSync(join(directory, 'file'), 'of the host');
    const git = ['-C', repository, '-c', 'user.name=me', '-c', 'user.email=me@localhost'];
    execFileSync('git', ['init', '-q', repository]);
    writeFileSync(join(repository, 'file'), 'of the host');
    execFileSync('git', [...git, 'add', '.']);
    execFileSync('git', [...git, 'commit', '-q', '-m', 'first']);
    for (const name of alwaysDenied) {
      const path = join(home, name);
      if (existsSync(path)) continue;
      mkdirSync(path, { recursive: true });
      made.push(path);
    }
    env = { SQUASH_BOX_DATA: data, SQUASH_DATA: join(data, 'none'), SQUASH_IDLE_EXIT_S: '2' };
    env['SQUASH_MEMORY_RESERVE_MB'] = '0';
  });

  after(async () => {
    for (const path of [join(repository, '..'), claude, dotfile, temporary])
      rmSync(path, { recursive: true, force: true });
    for (const path of made) rmdirSync(path);
    await removeAbandoned(join(data, '..'));
  });

  const box = async (...words: readonly string[]): Promise<CliEnd> =>
    await squash(undefined, ['box', 'run', '--rm', ...words], { cwd: repository, env });

  const inside = async (script: string, ...flags: readonly string[]): Promise<CliEnd> =>
    await box(...flags, '--', 'sh', '-c', script);

  const isPossibleOutside = (script: string): boolean =>
    spawnSync('sh', ['-c', script], { cwd: repository, stdio: 'ignore' }).status === 0;

  it('the worktree, the agent’s configuration and /tmp are there to read and write, and stay as they are here', async () => {
    for (const path of [join(repository, 'file'), join(claude, 'file')]) {
      const end = await inside(`cat ${path} && echo inside > ${path} && cat ${path}`);
      assert.deepEqual([end.code, end.stdout.toString()], [0, 'of the hostinside\n'], end.stderr);
      assert.equal(readFileSync(path, 'utf8'), 'of the host');
    }
    const name = `${temporary}-inside`;
    const end = await inside(`test ! -e ${temporary} && echo inside > ${name} && cat ${name}`);
    assert.deepEqual([end.code, end.stdout.toString()], [0, 'inside\n'], end.stderr);
    assert.ok(!existsSync(name));
  });

  it('git works, and the repository’s own .git does not change', async () => {
    const head = readFileSync(join(repository, '.git/HEAD'), 'utf8');
    const end = await inside('git log --format=%s && git checkout -q -b inside && git branch --show-current');
    assert.deepEqual([end.code, end.stdout.toString()], [0, 'first\ninside\n'], end.stderr);
    assert.equal(readFileSync(join(repository, '.git/HEAD'), 'utf8'), head);
  });

  it('programs and libraries of the system are read-only', async () => {
    const end = await inside(
      'for at in /usr /usr/bin /etc /opt; do mkdir $at/squash-seed && echo "$at"; done; ls /usr/bin/env',
    );
    assert.deepEqual([end.code, end.stdout.toString()], [0, '/usr/bin/env\n']);
  });

  it('everything else in the home directory is denied, also what comes later', async () => {
    const file = join(dotfile, 'file');
    assert.ok(isPossibleOutside(`cat ${file}`));
    assert.equal((await inside(`cat ${file}`)).code, 1);
    const later = `${dotfile}-later`;
    const child = startCli(
      undefined,
      ['box', 'run', '--rm', '--', 'sh', '-c', `echo ready; read line; cat ${later}`],
      { cwd: repository, env },
    );
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    writeFileSync(later, 'of the host');
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    child.stdin?.end('go\n');
    assert.equal(await ended, 1);
    rmSync(later);
  });

  it('some places are denied even where they are asked for', async () => {
    for (const name of alwaysDenied) {
      const path = join(home, name);
      assert.ok(isPossibleOutside(`ls ${path}`), path);
      const asked = await inside(`ls ${path}`, '--ro', path);
      assert.equal(asked.code, 126, `${path}: ${asked.stderr}`);
      // Below a directory that is open.
      const around = await inside(
        `ls ${path}`,
        '--ro',
        join(home, name.split('/')[0] === name ? '.' : '.local'),
      );
      assert.notEqual(around.code, 0, path);
    }
    assert.notEqual((await inside('cat /etc/shadow', '--ro', '/etc')).code, 0);
    for (const path of ['/etc/shadow', '/root'])
      assert.equal((await inside('true', '--ro', path)).code, 126, path);
  });

  it('other users’ homes are denied', async () => {
    const beside = join(home, '..');
    assert.ok(isPossibleOutside(`ls ${beside}`));
    const end = await inside(`ls -A ${beside}`);
    assert.equal(end.stdout.toString().trim(), basename(home), end.stderr);
  });

  it('what other tasks wrote is denied', async () => {
    const first = await squash(undefined, ['box', 'run', '--keep', '--', 'sh', '-c', 'echo theirs > file'], {
      cwd: repository,
      env,
    });
    assert.equal(first.code, 0, first.stderr);
    const end = await inside(`cat file; ls ${data}`);
    assert.equal(end.stdout.toString(), 'of the host');
    assert.equal((await inside('true', '--ro', data)).code, 126);
    const { stdout } = await squash(undefined, ['box', 'ps', '-q'], { cwd: repository, env });
    const removed = await squash(undefined, ['box', 'rm', stdout.toString().trim()], {
      cwd: repository,
      env,
    });
    assert.equal(removed.code, 0, removed.stderr);
  });

  it('a program has a terminal', async () => {
    const end = await inside('tty && test -c /dev/tty && stty size', '--tty');
    assert.equal(end.code, 0, end.stderr);
    assert.match(end.stdout.toString(), /^\/dev\/pts\/\d+\r\n\d+ \d+\r\n$/);
  });
});
