/**
 * Commits come out of a box whose repository an attacker has made: nothing runs here, and nothing changes but branches below
 * `box/<box>/` and the objects that they stand on. What the same tree does to a careless user is tried beside it.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type CliEnd, endOf, squash, startCli } from '../support/cli.ts';
import { thisTurn } from '../support/turn.ts';
import { waitFor } from '../support/wait.ts';
import { BoxHost, git } from './box-host.ts';
import { gitAttempts } from './box-git-attempts.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;
const name = 'attacker';
const attempts = thisTurn(Object.entries(gitAttempts));
const lines = Array.from({ length: 40 }, (_, at) => `${at}\n`).join('');

describe('commits come out of a hostile box', { skip }, () => {
  let host: BoxHost;
  let mark: string;
  let copies = 0;

  const call = async (...words: readonly string[]): Promise<CliEnd> => {
    // A directory of the repository is in PATH, as with some tools: a git in it is the box's.
    const env = { ...host.environment, PATH: `${host.work}/bin:${process.env['PATH'] ?? '/usr/bin:/bin'}` };
    return await squash(undefined, ['box', ...words], { cwd: host.work, env });
  };
  const inBox = async (script: string): Promise<void> => {
    const reset = 'cd / && find "$OLDPWD" -mindepth 1 -delete; cp -a /tmp/base/. "$OLDPWD" && cd "$OLDPWD"';
    const end = await call(
      'exec',
      name,
      '--',
      '/bin/sh',
      '-c',
      `${reset} || exit 9\n{ ${script}\n} > /tmp/out 2>&1; true`,
    );
    assert.equal(end.code, 0, end.stderr);
  };
  /** Everything but objects and the branches that may come. */
  const state = (): string => {
    const refs = git(host.work, 'for-each-ref', '--format=%(refname) %(objectname)').split('\n');
    const files = listed(host.work).filter(
      (line) => !/^\.git\/(?:objects|refs\/heads\/box|logs\/refs\/heads\/box)(?:\/|$| )/.test(line),
    );
    return [...refs.filter((ref) => !ref.startsWith(`refs/heads/box/${name}/`)), ...files].join('\n');
  };
  const branches = (): readonly string[] =>
    git(host.work, 'for-each-ref', '--format=%(refname)', 'refs/heads/box')
      .split('\n')
      .filter((each) => each !== '');
  const forget = (): void => {
    for (const ref of branches()) git(host.work, 'update-ref', '-d', ref);
  };
  const copyWith = (script: string): string => {
    const copy = join(host.top, `copy-${(copies += 1)}`);
    cpSync(host.work, copy, { recursive: true });
    spawnSync('/bin/sh', ['-c', script], { cwd: copy, env: ownEnv, timeout: 10_000 });
    rmSync(mark, { force: true });
    return copy;
  };

  before(async () => {
    host = new BoxHost();
    mark = join(host.top, 'ran');
    git(host.work, 'checkout', '-q', '-b', 'main');
    git(host.work, 'config', 'user.name', 'u');
    git(host.work, 'config', 'user.email', 'u@example.com');
    writeFileSync(join(host.work, 'a.txt'), 'a\n');
    writeFileSync(join(host.work, 'run.sh'), 'cat\n');
    writeFileSync(join(host.work, 'sample'), lines);
    git(host.work, 'add', '-A');
    git(host.work, 'commit', '-qm', 'the first');
    const end = await call(
      'run',
      '-d',
      '--name',
      name,
      '--',
      '/bin/sh',
      '-c',
      'cp -a . /tmp/base; echo ready; exec sleep 600',
    );
    assert.equal(end.code, 0, end.stderr);
    assert.equal(
      (await call('exec', name, '--', '/bin/sh', '-c', 'until [ -e /tmp/base/run.sh ]; do sleep 0.1; done'))
        .code,
      0,
    );
  });

  after(() => host[Symbol.asyncDispose]());

  for (const [title, { box, careless: words, isTaken, said, words: more = [] }] of attempts) {
    it(title, async () => {
      forget();
      const before = state();
      await inBox(box(mark));
      const commits = await call('commits', name);
      const end = await call('fetch', name, ...more);
      assert.ok(!existsSync(mark), 'a program of the box’s ran here');
      assert.equal(state(), before);
      const came = branches();
      for (const ref of came) assert.match(ref, /^refs\/heads\/box\/attacker\/[A-Za-z0-9][\w./-]*$/);
      assert.equal(git(host.work, 'fsck', '--strict', '--no-dangling'), '');
      assert.deepEqual(readdirSync(join(host.data, 'tmp')), []);
      for (const text of [commits.stderr, end.stderr, commits.stdout.toString(), end.stdout.toString()])
        assert.doesNotMatch(text, /(?!\n)\p{Cc}/u);
      if (said === undefined) {
        assert.equal(end.code, 0, end.stderr);
        assert.notEqual(came.length, 0);
      } else {
        assert.equal(end.code, 1, end.stdout.toString());
        assert.match(end.stderr, said);
        assert.deepEqual(came, []);
      }
      if (isTaken) {
        const plain = join(host.top, `copy-${(copies += 1)}`);
        git(host.top, 'init', '-q', plain);
        assert.equal(git(plain, 'fetch', '-q', copyWith(box(mark)), 'attack'), '');
      }
      if (words === undefined) return;
      spawnSync('git', ['-C', copyWith(box(mark)), ...words], { env: ownEnv, timeout: 10_000 });
      assert.ok(existsSync(mark), 'a careless git withstands it: the attempt proves nothing');
      rmSync(mark);
    });
  }

  it('one who is broken off leaves nothing', async () => {
    forget();
    const before = state();
    await inBox(gitAttempts['a bundle that never comes']?.box(mark) ?? '');
    const env = { ...host.environment, PATH: `${host.work}/bin:${process.env['PATH'] ?? '/usr/bin:/bin'}` };
    const child = startCli(undefined, ['box', 'fetch', name], { cwd: host.work, env });
    const tmp = join(host.data, 'tmp');
    await waitFor('the bundle to be begun', () =>
      readdirSync(tmp).some((directory) => existsSync(join(tmp, directory, 'bundle'))),
    );
    const ended = endOf(child);
    child.kill('SIGTERM');
    assert.equal((await ended).code, 143);
    assert.deepEqual(readdirSync(tmp), []);
    assert.equal(state(), before);
  });

  for (const [title, key, attribute, file] of [
    ['a filter of the user’s own, which runs a file of the tree', 'filter.own.smudge', 'filter=own', 'b.txt'],
    [
      'a merge driver of the user’s own, which runs a file of the tree',
      'merge.own.driver',
      'merge=own',
      'a.txt',
    ],
  ] as const) {
    it(title, async () => {
      forget();
      git(host.work, 'config', key, 'sh ./run.sh %A %O %B');
      const script = `
        echo 'touch ${mark}; cat; exit 0' > run.sh; echo '*.txt ${attribute}' > .gitattributes
        git add -A; git commit -qm program; echo box >> ${file}; git add -A; git commit -qm attack`;
      await inBox(script);
      writeFileSync(join(host.work, 'a.txt'), 'a\nmine\n');
      git(host.work, 'commit', '-qam', 'mine');
      const copy = join(host.top, `copy-${(copies += 1)}`);
      cpSync(host.work, copy, { recursive: true });
      const end = await call('merge', name, '--held');
      assert.ok(!existsSync(mark), 'a program of the box’s ran here');
      assert.equal(git(host.work, 'status', '--porcelain'), '');
      if (file === 'a.txt') assert.match(end.stderr, /merge_conflict/);
      else assert.equal(end.code, 0, end.stderr);
      assert.equal((await call('fetch', name, 'main')).code, 0);
      git(copy, 'fetch', '-q', host.work, '+refs/heads/box/*:refs/heads/box/*');
      // Attributes and script come first, as with somebody who merges twice.
      git(copy, 'merge', '-q', '-m', 'one', `box/${name}/main~1`);
      git(copy, 'merge', '-q', '-m', 'two', `box/${name}/main`);
      assert.ok(existsSync(mark), 'a careless git withstands it: the attempt proves nothing');
      rmSync(mark);
      git(host.work, 'config', '--unset', key);
      git(host.work, 'reset', '-q', '--hard', 'main~1');
    });
  }

  const commitHere = (file: string, text: string): void => {
    writeFileSync(join(host.work, file), text);
    git(host.work, 'add', '-A');
    git(host.work, 'commit', '-qm', 'mine', '--no-gpg-sign');
  };
  const backToFirst = (): void => {
    git(host.work, 'reset', '-q', '--hard', git(host.work, 'rev-list', '--max-parents=0', 'main').trim());
    git(host.work, 'clean', '-fdq');
  };

  for (const [format, key, signer] of [
    ['openpgp', 'gpg.program', {}],
    ['ssh', 'gpg.ssh.program', { 'user.signingKey': '/nowhere/key' }],
    ['ssh', 'gpg.ssh.defaultKeyCommand', {}],
    ['x509', 'gpg.x509.program', {}],
  ] as const) {
    it(`${key}, by options of a branch for its merges`, async () => {
      forget();
      const program = join(host.top, 'sign');
      writeFileSync(program, `#!/bin/sh\ntouch ${mark}\nexit 1\n`, { mode: 0o755 });
      const settings = {
        'gpg.format': format,
        [key]: program,
        ...signer,
        'branch.main.mergeOptions': '--no-ff -S',
      };
      for (const [name, value] of Object.entries(settings)) git(host.work, 'config', name, value);
      await inBox('echo box > b.txt; git add -A; git commit -qm attack --no-gpg-sign');
      commitHere('a.txt', 'mine\n');
      const end = await call('merge', name);
      assert.ok(!existsSync(mark), 'a program of the configuration ran');
      assert.equal(end.code, 0, end.stderr);
      git(host.work, 'reset', '-q', '--hard', 'main~1');
      git(host.work, 'merge', '-q', '-m', 'careless', `box/${name}/main`);
      assert.ok(existsSync(mark), 'a careless git withstands it: the attempt proves nothing');
      rmSync(mark);
      for (const each of Object.keys(settings)) git(host.work, 'config', '--unset', each);
      backToFirst();
    });
  }

  it('a submodule whose own configuration has a filter', async () => {
    forget();
    const lent = join(host.top, 'lent');
    git(host.top, 'init', '-q', lent);
    git(lent, 'commit', '-q', '--allow-empty', '-m', 'first');
    // As one lays it who has written the directory itself before.
    git(host.work, 'clone', '-q', lent, 'sub');
    writeFileSync(join(host.work, 'sub/file'), 'x\n');
    git(join(host.work, 'sub'), 'add', 'file');
    git(join(host.work, 'sub'), 'commit', '-qm', 'file');
    commitHere('a.txt', 'mine\n');
    git(join(host.work, 'sub'), 'config', 'filter.x.clean', `touch ${mark}; cat`);
    writeFileSync(join(host.work, 'sub/.gitattributes'), '* filter=x\n');
    writeFileSync(join(host.work, 'sub/file'), 'y\n');
    await inBox('echo box > a.txt; git commit -qam attack');
    const end = await call('merge', name);
    assert.ok(!existsSync(mark), 'a program of the configuration ran');
    assert.match(end.stderr, /both changed a\.txt: .*merge_conflict/);
    git(host.work, 'status');
    assert.ok(existsSync(mark), 'a careless git withstands it: the attempt proves nothing');
    rmSync(mark);
    rmSync(join(host.work, 'sub'), { recursive: true });
    backToFirst();
  });

  it('a log that is a link to a file elsewhere, in a repository that came so', async () => {
    forget();
    await inBox('echo box >> b.txt; git add -A; git commit -qm attack');
    const [log, own] = [join(host.work, '.git/logs/HEAD'), join(host.top, 'rc')];
    writeFileSync(own, '');
    rmSync(log, { force: true });
    symlinkSync(own, log);
    for (const word of ['fetch', 'merge'])
      assert.match((await call(word, name)).stderr, /is a link.*git_failed/);
    assert.equal(readFileSync(own, 'utf8'), '');
    git(host.work, 'commit', '-q', '--allow-empty', '-m', 'careless');
    assert.match(readFileSync(own, 'utf8'), /careless/);
    rmSync(log);
    backToFirst();
  });

  it('a change that comes under the name that a file has been given meanwhile', async () => {
    forget();
    // Out of the way of the box's `git add --all`, which would take the new name along.
    await inBox(`echo evil >> sample; git commit -qam attack; echo .envrc > .git/info/exclude`);
    git(host.work, 'mv', 'sample', '.envrc');
    git(host.work, 'commit', '-qm', 'renamed');
    const end = await call('merge', name);
    assert.match(end.stderr, /\.envrc .*\n.*held_back/);
    assert.equal(readFileSync(join(host.work, '.envrc'), 'utf8'), lines);
    git(host.work, 'merge', '-q', '-m', 'careless', `box/${name}/main`);
    assert.match(readFileSync(join(host.work, '.envrc'), 'utf8'), /evil/);
    backToFirst();
  });
});

const ownEnv = {
  PATH: '/usr/bin:/bin',
  HOME: '/nowhere',
  GIT_AUTHOR_NAME: 'u',
  GIT_AUTHOR_EMAIL: 'u@example.com',
  GIT_COMMITTER_NAME: 'u',
  GIT_COMMITTER_EMAIL: 'u@example.com',
};

/** A line for each name, with what it holds. */
function listed(top: string): readonly string[] {
  return readdirSync(top, { recursive: true, encoding: 'utf8' })
    .toSorted()
    .map((path) => {
      const stats = lstatSync(join(top, path));
      if (stats.isSymbolicLink()) return `${path} -> ${readlinkSync(join(top, path))}`;
      return stats.isFile() ? `${path} ${stats.mode} ${readFileSync(join(top, path), 'base64')}` : `${path}/`;
    });
}
