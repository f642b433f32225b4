/**
 * Commits of boxes as an ordinary user has them: made inside, with git's own commands, and brought home by ours. What is here changes by
 * the branches that come, and by nothing else.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { BoxHost } from '../security/box-host.ts';
import { cliCommand, type CliEnd, cliEnvironment, squash } from '../support/cli.ts';
import { expectNoLeaks, processesOf } from '../support/leaks.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;
const hasPython = spawnSync('python3', ['-c', 'import pty']).status === 0;
const commit = 'git add -A && git commit -qm';

describe('commits of a box', { skip }, () => {
  let host: BoxHost;
  let repository: string;
  let count = 0;

  const git = (...words: readonly string[]): string =>
    execFileSync('git', ['-C', repository, ...words], { encoding: 'utf8' });
  const refs = (): string => git('for-each-ref', '--format=%(refname) %(objectname)');
  const here = (): string => `${refs()}${git('status', '--porcelain')}${git('rev-parse', 'HEAD')}`;

  const box = async (words: readonly string[], cwd = repository): Promise<CliEnd> =>
    await squash(undefined, ['box', ...words], { cwd, env: host.environment });
  const printed = async (words: readonly string[], cwd = repository): Promise<string> => {
    const end = await box(words, cwd);
    assert.equal(end.code, 0, `${words.join(' ')}: ${end.stderr}`);
    return end.stdout.toString();
  };
  const make = async (name: string, script: string, ...words: readonly string[]): Promise<void> => {
    await printed(['run', '--name', name, ...words, '--', 'sh', '-c', script]);
  };
  const refused = async (words: readonly string[], said: RegExp): Promise<void> => {
    const before = here();
    const end = await box(words);
    assert.equal(end.code, 1, end.stderr);
    assert.match(end.stderr, said);
    assert.equal(here(), before);
  };

  before(() => {
    host = new BoxHost();
  });

  beforeEach(() => {
    repository = join(host.top, `repository-${(count += 1)}`);
    execFileSync('git', ['init', '-q', '-b', 'main', repository]);
    git('config', 'user.name', 'The User');
    git('config', 'user.email', 'user@example.org');
    writeFileSync(join(repository, 'a.txt'), 'a\n');
    writeFileSync(join(repository, 'b.txt'), 'b\n');
    writeFileSync(join(repository, '.gitignore'), 'ignored\n');
    git('add', '-A');
    git('commit', '-qm', 'the first');
  });

  after(() => host[Symbol.asyncDispose]());

  it('are made in the box, shown, and fetched as branches of their own', async () => {
    const before = here();
    const script = `echo more >> a.txt && ${commit} 'on main' && git switch -qc feature && echo new > new.txt && ${commit} 'a feature'`;
    await make('one', script);
    assert.equal(here(), before);
    assert.match(
      await printed(['commits', 'one']),
      /^feature {2}\(as box\/one\/feature[^]*a feature[^]*on main/,
    );
    assert.equal(here(), before);
    assert.match(await printed(['fetch', 'one']), /^feature is box\/one\/feature/m);
    const listed = git('log', '--format=%s %an', 'box/one/feature');
    assert.equal(listed, 'a feature The User\non main The User\nthe first The User\n');
    assert.equal(git('log', '-1', '--format=%s', 'main'), 'the first\n');
    assert.equal(git('log', '-1', '--format=%s', 'box/one/main'), 'on main\n');
    assert.equal(git('status', '--porcelain'), '');
    assert.equal(git('fsck', '--strict'), '');
    assert.ok(!existsSync(join(repository, '.git/FETCH_HEAD')));
    assert.match(await printed(['ps']), /one +stopped/);
    const again = await box(['fetch', 'one']);
    assert.match(again.stderr, /no commit that is not here/);
    assert.equal(await printed(['commits', 'one']), '');

    // A list that people read counts git's objects, and tells each of its other files.
    const changes = await box(['diff', 'one']);
    assert.doesNotMatch(changes.stdout.toString(), /objects/);
    assert.match(changes.stdout.toString(), /\.git\/HEAD[^]* a\.txt$/m);
    assert.match(changes.stderr, /and \d+ of git’s objects: squash box commits one/);
    assert.match(await printed(['diff', 'one', '.git']), /\.git\/objects\//);

    // Further commits move the branch on, others do not.
    await printed(['exec', 'one', '--', 'sh', '-c', `echo 2 > 2.txt && ${commit} second`]);
    await printed(['fetch', 'one', 'feature']);
    assert.equal(git('log', '-1', '--format=%s', 'box/one/feature'), 'second\n');
    await printed(['exec', 'one', '--', 'git', 'commit', '--amend', '-qm', 'other']);
    await refused(['fetch', 'one', 'feature'], /branch_diverged/);
    await printed(['fetch', 'one', 'feature', '--as', 'mine']);
    assert.equal(git('log', '-1', '--format=%s', 'mine'), 'other\n');
    await refused(['fetch', 'one', 'feature', '--as', 'main', '--force'], /branch_checked_out/);
    await refused(['fetch', 'one', 'nothing'], /branch_refused/);
    await printed(['fetch', 'one', 'feature', '--force']);
    assert.equal(git('log', '-1', '--format=%s', 'box/one/feature'), 'other\n');
    // So does what was left behind.
    const applied = await box(['apply', 'one']);
    assert.match(applied.stderr, /\.git\/HEAD: held: /);
    assert.match(
      applied.stderr,
      /and \d+ of git’s objects: held; to have the commits: squash box fetch one$/m,
    );
    assert.doesNotMatch(applied.stderr, /\.git\/objects\//);
    assert.match((await box(['apply', 'one', '.git'])).stderr, /\.git\/objects\/[^\n]*: held: /);
    await printed(['rm', 'one']);
  });

  it('are made in a linked worktree, whose main repository stays as it is', async () => {
    const linked = `${repository}-linked`;
    git('worktree', 'add', '-q', '-b', 'linked', linked);
    const before = here();
    const files = readdirSync(join(repository, '.git')).toSorted();
    const script = `ls -A ${repository}; git status --short; echo x > x.txt; ${commit} 'of the worktree'; git branch --show-current`;
    const text = await printed(['run', '--name', 'linked', '--', 'sh', '-c', script], linked);
    assert.equal(text, '.git\nlinked\n');
    assert.equal(here(), before);
    await printed(['merge', 'linked', '--rm'], linked);
    assert.equal(readFileSync(join(linked, 'x.txt'), 'utf8'), 'x\n');
    assert.equal(git('log', '-1', '--format=%s', 'linked'), 'of the worktree\n');
    assert.deepEqual(
      readdirSync(join(repository, '.git')).filter((name) => !files.includes(name) && name !== 'logs'),
      [],
    );
    // One that only commits what was there already holds work, too.
    writeFileSync(join(linked, 'y.txt'), 'y\n');
    const only = await box(['run', '--name', 'only', '--', 'sh', '-c', `${commit} 'y only'`], linked);
    assert.match(only.stderr, /keeps/);
    await printed(['rm', 'only']);
    const nothing = await box(['run', '--', 'git', 'status'], linked);
    assert.doesNotMatch(nothing.stderr, /keeps/);
    // What a repository says of itself opens nothing of another one.
    const posing = join(host.top, 'posing');
    mkdirSync(posing);
    writeFileSync(join(posing, '.git'), `gitdir: ${repository}/.git/worktrees/repository-2-linked\n`);
    assert.notEqual((await box(['run', '--', 'ls', `${repository}/.git`], posing)).code, 0);
  });

  it('are the box’s also where it writes the repository itself, which can’t change what git obeys', async () => {
    const config = readFileSync(join(repository, '.git/config'), 'utf8');
    const before = refs();
    const script = `
      echo rw > a.txt && git commit -qam 'of rw' && git config core.fsmonitor 'touch /tmp/ran' && echo x > .git/hooks/post-checkout
      mv .git elsewhere; rm -rf .git; test -d .git`;
    // As settings of an agent are, which many have.
    const other = join(host.top, 'settings');
    mkdirSync(other);
    await make('rw', script, '--repo', 'rw', '--cow', other);
    assert.equal(readFileSync(join(repository, 'a.txt'), 'utf8'), 'rw\n');
    assert.equal(readFileSync(join(repository, '.git/config'), 'utf8'), config);
    assert.ok(!existsSync(join(repository, '.git/hooks/post-checkout')));
    assert.equal(refs(), before);
    // What it wrote to its copy comes like anything that git obeys, where it is asked for.
    const applied = await box(['apply', 'rw']);
    assert.match(applied.stderr, /config: held/);
    assert.equal(readFileSync(join(repository, '.git/config'), 'utf8'), config);
    await make('rw-2', `echo 2 > a.txt && git commit -qam 'of rw 2'`, '--repo', 'rw');
    await refused(['merge', 'rw-2'], /writes the files/);
    await printed(['fetch', 'rw-2']);
    assert.equal(git('log', '-1', '--format=%s', 'box/rw-2/main'), 'of rw 2\n');
    // Not in a tree that some box writes, whichever box's commits they are.
    await make('beside', 'echo beside > beside.txt');
    await refused(['merge', 'beside'], /writes the files/);
    for (const name of ['rw', 'rw-2']) await printed(['rm', name]);
    git('checkout', '-q', '--', 'a.txt');
    rmSync(join(repository, 'elsewhere'), { recursive: true, force: true });
    await printed(['merge', 'beside', '--rm']);
    // Of a linked worktree the file that names the directory can't be written.
    const linked = `${repository}-linked`;
    git('worktree', 'add', '-q', '-b', 'linked', linked);
    const pointer = readFileSync(join(linked, '.git'), 'utf8');
    const exchange = `echo x > x.txt; ${commit} 'of a worktree'; echo 'gitdir: evil' > .git; mv .git moved; rm -f .git`;
    const tried = await box(['run', '--name', 'tried', '--repo', 'rw', '--', 'sh', '-c', exchange], linked);
    assert.match(tried.stderr, /keeps/);
    assert.equal(readFileSync(join(linked, '.git'), 'utf8'), pointer);
    assert.match(await printed(['fetch', 'tried'], linked), /^linked is box\/tried\/linked/);
    await printed(['rm', 'tried']);
    // So does a policy that says rw, and nothing else of git's is had.
    mkdirSync(join(host.top, 'policies'), { recursive: true });
    const policy = join(host.top, 'policies/rw.toml');
    writeFileSync(policy, 'version = 1\n[workdir]\nsource = "."\nmode = "rw"\n');
    const text = await printed(['run', '--policy', policy, '--print-policy', '--', 'true']);
    const { fs } = JSON.parse(text) as { fs: Record<string, string> };
    assert.deepEqual([fs[repository], fs[join(repository, '.git')]], ['rw', 'cow']);
    await refused(['fetch', 'rw-2'], /sandbox_not_found/);
  });

  it('are refused where a box writes git’s own directory here', async () => {
    await make('writer', 'echo x > x.txt', '--rw', '.git');
    await refused(['fetch', 'writer'], /git_writable/);
    await printed(['rm', 'writer']);
  });

  it('of two tasks at once are on a branch each, without what is not committed here, and both are merged', async () => {
    writeFileSync(join(repository, 'a.txt'), 'not committed\n');
    writeFileSync(join(repository, 'untracked.txt'), 'untracked\n');
    execFileSync('git', ['init', '-q', join(repository, 'nested')]);
    git(
      '-C',
      'nested',
      '-c',
      'user.name=x',
      '-c',
      'user.email=x@x',
      'commit',
      '-q',
      '--allow-empty',
      '-m',
      'x',
    );
    mkdirSync(join(repository, 'ignored'));
    writeFileSync(join(repository, 'ignored/package'), 'stays\n');
    const before = here();
    const script = `git status --short; cat a.txt ignored/package; git branch --show-current; test ! -e untracked.txt -a ! -e nested || exit 3; echo "$0" > "$0.txt"; printf 'a\\tb\\n' > "$0.tab"`;
    const [one, two] = await Promise.all(
      ['one', 'two'].map(
        async (name) =>
          await printed(['run', '--name', name, '--branch', `task/${name}`, '--', 'sh', '-c', script, name]),
      ),
    );
    assert.equal(one, 'a\nstays\ntask/one\n');
    assert.equal(two, 'a\nstays\ntask/two\n');
    assert.equal(here(), before);
    assert.match(await printed(['ps']), /one +stopped[^\n]* task\/one +\(0\) sh -c /);
    assert.match(await printed(['diff', '-p', 'one']), /^\+a\tb$/m);
    const unmet = await box(['apply', 'one', 'one.tab', 'no-such']);
    assert.deepEqual([unmet.code, existsSync(join(repository, 'one.tab'))], [1, false]);
    assert.match(unmet.stderr, /"no-such": nothing was applied/);
    assert.doesNotMatch((await box(['commits', 'no-such'])).stderr, /squash ls/);
    git('checkout', '-q', '--', 'a.txt');
    await printed(['merge', 'one', '-m', 'the first task', '--rm']);
    await printed(['merge', 'two', '--rm']);
    assert.equal(readFileSync(join(repository, 'one.txt'), 'utf8'), 'one\n');
    assert.equal(readFileSync(join(repository, 'two.txt'), 'utf8'), 'two\n');
    assert.match(git('log', '--format=%s %an'), /the first task The User/);
    assert.equal(git('fsck', '--strict'), '');
    assert.doesNotMatch(git('ls-tree', '-r', 'HEAD'), /nested/);
    rmSync(join(repository, 'nested'), { recursive: true });
    assert.doesNotMatch(await printed(['ps']), /task/);
    const none = await box([
      'run',
      '--branch',
      'nothing',
      '--base',
      'HEAD~1',
      '--',
      'git',
      'log',
      '--oneline',
    ]);
    assert.equal(none.code, 0, none.stderr);
    assert.doesNotMatch(none.stderr, /keeps/);
    for (const [words, code, said] of [
      [['--branch', 'main'], 125, /already exists/],
      [['--branch', 'x', '--base', 'no-such'], 125, /no-such/],
      [['--branch', '-x'], 125, /can be no branch/],
      [['--branch', 'x', '--repo', 'rw'], 125, /copy-on-write/],
      [['--base', 'main'], 125, /--branch/],
    ] as const) {
      const end = await box(['run', ...words, '--', 'true']);
      assert.equal(end.code, code, end.stderr);
      assert.match(end.stderr, said);
    }
    const plain = join(host.top, 'plain');
    mkdirSync(plain);
    assert.match(
      (await box(['run', '--branch', 'x', '--', 'true'], plain)).stderr,
      /is none of yours; to make one/,
    );
    execFileSync('git', ['init', '-q', plain]);
    assert.match(
      (await box(['run', '--branch', 'x', '--', 'true'], plain)).stderr,
      /has no commit, and a branch begins at one/,
    );
  });

  it('are merged whole or not at all, and what is held back only where that is asked for', async () => {
    await make('both', 'echo box > a.txt; echo box > c.txt');
    writeFileSync(join(repository, 'a.txt'), 'here\n');
    git('commit', '-qam', 'here');
    const head = git('rev-parse', 'HEAD');
    const conflict = await box(['merge', 'both']);
    assert.equal(conflict.code, 1);
    assert.match(conflict.stderr, /both changed a\.txt[^]*git merge box\/both\/main[^]*merge_conflict/);
    assert.equal(git('rev-parse', 'HEAD'), head);
    assert.equal(git('status', '--porcelain'), '');
    // What the merge has run in the box is not what somebody started there.
    assert.match(await printed(['ps']), /both [^\n]*\(0\) sh -c 'echo box/);
    await printed(['rm', 'both']);

    await make(
      'held',
      'mkdir .vscode && echo {} > .vscode/tasks.json; ln -s /etc/passwd link; echo box > b.txt',
    );
    const held = await box(['merge', 'held']);
    assert.match(held.stderr, /\.vscode\/tasks\.json[^]*link \(a link that leads out[^]*held_back/);
    assert.equal(git('rev-parse', 'HEAD'), head);
    assert.equal(git('status', '--porcelain'), '');
    writeFileSync(join(repository, 'b.txt'), 'not committed\n');
    assert.match((await box(['merge', 'held', '--held'])).stderr, /b\.txt[^]*merge_refused/);
    assert.equal(git('status', '--porcelain'), ' M b.txt\n');
    git('checkout', '-q', '--', 'b.txt');
    await printed(['merge', 'held', '--held', '--rm']);
    assert.equal(readFileSync(join(repository, '.vscode/tasks.json'), 'utf8'), '{}\n');
    assert.equal(git('log', '-1', '--format=%an %cn'), 'The User The User\n');
  });

  it('of many boxes are merged one after the other, whoever asks at once', async () => {
    const names = ['p', 'q', 'r', 's'];
    await Promise.all(names.map((name) => make(name, `echo ${name} > ${name}.txt`, '--branch', `b/${name}`)));
    await Promise.all(names.map((name) => printed(['merge', name, '--rm'])));
    assert.equal(git('status', '--porcelain'), '');
    for (const name of names)
      assert.equal(readFileSync(join(repository, `${name}.txt`), 'utf8'), `${name}\n`);
  });

  it('are merged by nobody who would end the merge of another', async () => {
    await make('late', 'echo box > c.txt');
    writeFileSync(join(repository, 'mine.txt'), 'mine\n');
    git('add', '-A');
    const other = git('commit-tree', '-p', 'HEAD', '-m', 'other', git('write-tree').trim()).trim();
    // Theirs begins between our look and our merge.
    const programs = join(host.top, 'programs');
    mkdirSync(programs);
    const path = `${programs}:${process.env['PATH'] ?? ''}`;
    const script = `#!/bin/sh
case " $* " in *' merge --quiet --no-edit '*) echo ${other} > "$GIT_DIR/MERGE_HEAD" ;; esac
PATH=\${PATH#*:}:/usr/local/bin:/usr/bin:/bin exec git "$@"
`;
    writeFileSync(join(programs, 'git'), script, { mode: 0o755 });
    const end = await squash(undefined, ['box', 'merge', 'late'], {
      cwd: repository,
      env: { ...host.environment, PATH: path },
    });
    assert.deepEqual(
      [end.code, /git merges nothing: [^]*merge_refused/.test(end.stderr)],
      [1, true],
      end.stderr,
    );
    assert.equal(readFileSync(join(repository, '.git/MERGE_HEAD'), 'utf8'), `${other}\n`);
    assert.equal(git('status', '--porcelain', '--', 'mine.txt'), 'A  mine.txt\n');
    rmSync(join(repository, '.git/MERGE_HEAD'));
    git('commit', '-qm', 'mine');
    await printed(['merge', 'late', '--rm']);
  });

  it('of an agent are on a branch of its own, and what becomes of them is told or asked', async () => {
    const list = await printed(['agent']);
    for (const name of ['claude', 'codex', 'gemini', 'opencode', 'aider'])
      assert.match(list, new RegExp(`^${name} `, 'm'));
    const end = await box([
      'agent',
      '--',
      'sh',
      '-c',
      `echo x > x.txt && ${commit} 'of the agent'; echo y > y.txt; exit 3`,
    ]);
    assert.equal(end.code, 3, end.stderr);
    const [, id = '', branch = ''] =
      /box (\S+) has one commit on (box\/sh-[0-9a-f]{4}), and 2 files are different/.exec(end.stderr) ?? [];
    assert.notEqual(id, '', end.stderr);
    assert.match(end.stderr, new RegExp(`squash box merge ${id} --rm`));
    assert.match(await printed(['ps']), new RegExp(`${branch} `));
    await printed(['merge', id, '--rm']);
    assert.equal(readFileSync(join(repository, 'y.txt'), 'utf8'), 'y\n');
    assert.match(git('log', '--format=%s'), /of the agent/);
    assert.equal((await box(['agent', '--', 'true'])).stderr, '');

    // One that is known is told what to do, that it need not ask, and gets no key of ours.
    const tools = join(host.top, 'tools');
    mkdirSync(tools, { recursive: true });
    const program = `#!/bin/sh\nprintf '%s|' "$@"; echo; echo "key $ANTHROPIC_API_KEY"; git branch --show-current\n`;
    writeFileSync(join(tools, 'claude'), program, { mode: 0o755 });
    const env = {
      ...host.environment,
      PATH: `${tools}:${process.env['PATH'] ?? ''}`,
      ANTHROPIC_API_KEY: 'sk-ant-of-ours-and-nobody-elses',
    };
    const words = ['box', 'agent', 'claude', '--model', 'some', 'Mend the tests!'];
    const known = await squash(undefined, words, { cwd: repository, env });
    assert.match(
      known.stdout.toString(),
      /^--dangerously-skip-permissions\|--model\|some\|--print\|Mend the tests!\|\nkey \S+\nbox\/mend-the-tests-[0-9a-f]{4}\n$/,
      known.stderr,
    );
    assert.doesNotMatch(known.stdout.toString(), /of-ours/);
    const trusting = '#!/bin/sh\necho "$1 $GEMINI_CLI_TRUST_WORKSPACE"\n';
    writeFileSync(join(tools, 'gemini'), trusting, { mode: 0o755 });
    const gemini = await squash(undefined, ['box', 'agent', 'gemini', 'x'], { cwd: repository, env });
    assert.equal(gemini.stdout.toString(), '--yolo true\n', gemini.stderr);
    const detached = (await printed(['agent', '-d', '--branch', 'later', '--', 'sleep', '600'])).trim();
    assert.match(await printed(['ps']), new RegExp(`${detached} +- +ready[^\\n]* later `));
    await printed(['rm', detached]);
    assert.equal((await box(['agent', 'nobody'])).code, 125);
    const absent = await squash(undefined, ['box', 'agent', 'aider', 'x'], {
      cwd: repository,
      env: { ...env, PATH: tools },
    });
    assert.equal(absent.code, 127);
    assert.match(absent.stderr, /install it here/);
  });

  it('are merged, shown or thrown away as somebody answers', {
    skip: hasPython ? false : 'python3 is not installed',
  }, async () => {
    const run = (script: string): Terminal =>
      new Terminal(
        [
          'sh',
          '-c',
          `cd ${repository} && exec "$@"`,
          'sh',
          ...cliCommand,
          'box',
          'agent',
          '--',
          'sh',
          '-c',
          script,
        ],
        { rows: 33, columns: 101, env: { ...cliEnvironment(undefined), ...host.environment } },
      );
    await using first = run('echo one > one.txt');
    await first.see(/has 0 commits[^]*merge, diff, keep or discard/);
    first.type('d\r');
    await first.see(/\+one[^]*merge, diff, keep or discard/);
    first.type('m\r');
    await first.see(/merged box\//);
    assert.deepEqual(await first.end(), { status: 0, restored: true });
    assert.equal(readFileSync(join(repository, 'one.txt'), 'utf8'), 'one\n');
    // What it hid is seen again, and what was typed for its own question answers none of ours.
    await using second = run(`echo two > two.txt; printf 'menu? [m]\\033[?1049h\\033[8m\\033]0;'; exit 4`);
    await second.see(/menu\?/);
    second.type('m\r');
    const [shown] = await second.see(/[^]*merge, diff, keep or discard/);
    const restored = ['\u0018\u001b\\', '\u001b[?47l', '\u001b[0m', 'has 0 commits'].map((each) =>
      shown.indexOf(each),
    );
    assert.ok(!restored.includes(-1), JSON.stringify(shown));
    assert.deepEqual(
      restored,
      restored.toSorted((one, other) => one - other),
    );
    second.type('x\r');
    assert.deepEqual(await second.end(), { status: 4 * 256, restored: true });
    // What a merge would bring is shown, whatever the files in the box are.
    const hide = 'echo fine > three.txt; git update-index --assume-unchanged three.txt';
    await using third = run(`echo other > three.txt; ${commit} three; ${hide}`);
    await third.see(/has one commit[^]*merge, diff, keep or discard/);
    third.type('d\r');
    const [patch] = await third.see(/[^]*merge, diff, keep or discard/);
    assert.match(patch, /\n\+other\r\n/);
    third.type('x\r');
    await third.see(/git branch -D box\//);
    await third.end();
    assert.equal(git('status', '--porcelain'), '');
    assert.ok(!existsSync(join(repository, 'two.txt')));
    assert.equal((await printed(['ps', '-q'])).trim(), '');
  });

  it('leave nothing behind', async () => {
    const tmp = join(host.data, 'tmp');
    assert.deepEqual(existsSync(tmp) ? readdirSync(tmp) : [], []);
    rmSync(join(host.top, 'policies'), { recursive: true, force: true });
    await waitFor('the daemon to end', () => processesOf(host.data).length === 0, 60_000);
    await expectNoLeaks(host.data);
  });
});
