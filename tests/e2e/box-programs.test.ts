/**
 * Programs as a developer has them, in a box of an ordinary user: what works on the machine works in the box over its repository, with the
 * machine's own git, Python, Node, editor and terminal. Nothing is put into the box for them.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { archiveRanges, npm } from '../support/archives.ts';
import { Browser, noBrowser } from '../support/browser.ts';
import { cliCommand, type CliEnd, cliEnvironment, endOf, squash, startCli } from '../support/cli.ts';
import { expectNoLeaks, processesOf } from '../support/leaks.ts';
import { ownedPrefix, removeAbandoned } from '../support/owned-directory.ts';
import { Terminal } from '../support/terminal.ts';
import { thisTurn } from '../support/turn.ts';
import { waitFor } from '../support/wait.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;

/** The word for a test that needs it. */
function lacks(program: string): string | false {
  const { status } = spawnSync('sh', ['-c', `command -v ${program}`]);
  return status === 0 ? false : `this machine has no ${program}`;
}

/** Slow networks are no fault of a box. */
const agentsMsMax = 60_000;
const agents = [
  { name: '@anthropic-ai/claude-code', program: 'claude', version: /\d+\.\d+\.\d+ \(Claude Code\)/ },
  { name: '@openai/codex', program: 'codex', version: /^codex-cli \d+\./ },
  { name: '@google/gemini-cli', program: 'gemini', version: /^\d+\.\d+\.\d+/ },
  { name: 'opencode-ai', program: 'opencode', version: /^\d+\.\d+\.\d+/ },
];

/** A wheel without PyPI: what pip needs of one. */
const makeWheel = `import zipfile
with zipfile.ZipFile('hello_box-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('hello_box.py', 'def main():\\n    print("hello from a wheel")\\n')
    wheel.writestr('hello_box-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: hello-box\\nVersion: 1.0\\n')
    wheel.writestr('hello_box-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('hello_box-1.0.dist-info/entry_points.txt', '[console_scripts]\\nhello-box = hello_box:main\\n')
    wheel.writestr('hello_box-1.0.dist-info/RECORD', '')
`;

const unittest = `import multiprocessing, tempfile, unittest

def square(number):
    return number * number

class Case(unittest.TestCase):
    def test_processes(self):
        with multiprocessing.Pool(2) as pool:
            self.assertEqual(pool.map(square, range(4)), [0, 1, 4, 9])

    def test_files(self):
        with tempfile.TemporaryDirectory() as place:
            open(place + '/x', 'w').close()
`;

/** What downloads a hundred megabytes, or asks a registry of this machine's. */
const itLong = process.env['TEST_LONG'] === '1' ? it : undefined;

describe('programs in a box', { skip }, () => {
  let data: string;
  let work: string;
  let repository: string;
  let env: Record<string, string>;
  let registry: string;

  before(async () => {
    data = join(mkdtempSync(join(tmpdir(), ownedPrefix('box'))), 'data');
    work = mkdtempSync(join(userInfo().homedir, 'squash-box-test-'));
    repository = join(work, 'project');
    mkdirSync(repository);
    const git = (...words: readonly string[]) => execFileSync('git', ['-C', repository, ...words]);
    git('init', '-q', '-b', 'main');
    git('config', 'user.name', 'A Tester');
    git('config', 'user.email', 'tester@example.com');
    writeFileSync(join(repository, 'file.txt'), 'one\n');
    git('add', '.');
    git('commit', '-qm', 'one');
    env = {
      SQUASH_BOX_DATA: data,
      SQUASH_DATA: join(data, 'none'),
      SQUASH_IDLE_EXIT_S: '2',
      SQUASH_MEMORY_RESERVE_MB: '0',
    };
    registry = await archiveRanges(npm);
  });

  after(async () => {
    rmSync(work, { recursive: true, force: true });
    // A test that failed may have left the daemon with a box.
    await removeAbandoned(join(data, '..'));
  });

  const box = async (words: readonly string[], cwd = repository): Promise<CliEnd> =>
    await squash(undefined, ['box', ...words], { cwd, env });

  const printed = async (words: readonly string[], cwd = repository): Promise<string> => {
    const end = await box(words, cwd);
    assert.equal(end.code, 0, end.stdout.toString() + end.stderr);
    return end.stdout.toString();
  };

  const script = async (text: string): Promise<string> =>
    await printed(['run', '--rm', '--time', '60s', '--', 'bash', '-ec', text]);

  const terminal = (...words: readonly string[]): Terminal =>
    new Terminal(
      ['sh', '-c', 'cd "$0" && exec "$@"', repository, ...cliCommand, 'box', 'run', '--rm', ...words],
      { rows: 30, columns: 90, env: { ...cliEnvironment(undefined), ...env } },
    );

  describe('at the same time', { concurrency: 2 }, () => {
    void itLong?.('coding agents of npm start', async (t) => {
      if (lacks('npm') !== false || registry === '') return t.skip('npm can not install here');
      const project = join(work, 'agents');
      mkdirSync(project);
      execFileSync('git', ['init', '-q', project]);
      writeFileSync(join(project, 'package.json'), '{}');
      const install = ['npm', 'install', '--no-audit', '--no-fund', ...agents.map(({ name }) => name)];
      const words = [
        '--name',
        'agents',
        '--time',
        `${agentsMsMax / 1_000}s`,
        '--net',
        `preset:npm,${registry}`,
      ];
      const end = await box(['run', '--keep', ...words, '--', ...install], project);
      if (end.code !== 0) {
        await printed(['rm', 'agents']);
        return t.skip(`npm can not install the agents in ${agentsMsMax} ms: ${end.code} ${end.stderr}`);
      }
      const text = agents.map(({ program }) => `node_modules/.bin/${program} --version`).join('; echo --; ');
      const said = await printed(['exec', 'agents', '--', 'bash', '-c', text], project);
      const versions = said.split('--\n');
      for (const [index, { program, version }] of agents.entries())
        assert.match(versions[index] ?? '', version, program);
      await printed(['rm', 'agents']);
      return undefined;
    });

    it('git commits, rebases, and has submodules and worktrees', async () => {
      const said = await script(`
      git checkout -q -b topic
      echo topic > topic.txt && git add . && git commit -qm topic
      git checkout -q main
      echo two >> file.txt && git commit -qam two
      git rebase -q main topic
      git init -q -b main /tmp/library
      git -C /tmp/library -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m library
      git -c protocol.file.allow=always submodule --quiet add /tmp/library library
      git commit -qm submodule
      git worktree add -q ../beside main
      git stash list; git gc -q; git fsck --strict
      git log --format=%s; git -C ../beside log --format=%s -1; git submodule status | cut -c 1,42-`);
      assert.equal(said, 'submodule\ntopic\ntwo\none\ntwo\n  library (heads/main)\n');
      const outside = execFileSync('git', ['-C', repository, 'log', '--all', '--format=%s'], {
        encoding: 'utf8',
      });
      assert.equal(outside, 'one\n');
      assert.ok(!existsSync(join(work, 'beside')));
    });

    void itLong?.('npm installs from its registry alone, and runs tests', async (t) => {
      const missing = lacks('npm');
      if (missing !== false || registry === '') return t.skip('npm can not install here');
      const project = join(work, 'node-project');
      mkdirSync(project);
      execFileSync('git', ['init', '-q', project]);
      writeFileSync(join(project, 'package.json'), '{ "scripts": { "test": "node --test" } }');
      writeFileSync(
        join(project, 'odd.test.js'),
        `require('node:test')('both', () => require('node:assert')(require('is-odd')(7) && require('ms')('1s') === 1000));`,
      );
      const text = `npm install --no-audit --no-fund is-odd@3.0.1 ms@2.1.3 && npm test && ! curl -sSf --max-time 5 https://example.com`;
      const words = ['run', '--rm', '--net', `preset:npm,${registry}`, '--', 'bash', '-ec', text];
      const said = await printed(words, project);
      assert.match(said, /added 3 packages[^]*# pass 1|ℹ pass 1/);
      assert.ok(!existsSync(join(project, 'node_modules')));
      return undefined;
    });

    it('Python makes a virtual environment, pip installs into it, and tests run, with unittest and with pytest', {
      skip: lacks('python3') || lacks('pytest'),
    }, async () => {
      writeFileSync(join(repository, 'wheel.py'), makeWheel);
      writeFileSync(join(repository, 'test_case.py'), unittest);
      const said = await script(`
      python3 wheel.py && python3 -m venv .venv && . .venv/bin/activate
      pip install --quiet --disable-pip-version-check --no-index --find-links . hello-box
      hello-box && python -m unittest 2>&1
      pytest -q 2>&1`);
      assert.match(said, /^hello from a wheel\n[^]*Ran 2 tests in [^]*\nOK\n[^]*\n2 passed in /);
    });

    it('compilers of the machine make programs that run', { skip: lacks('cc') }, async () => {
      writeFileSync(
        join(repository, 'hello.c'),
        '#include <stdio.h>\nint main(void) { puts("hello from C"); }\n',
      );
      assert.equal(await script('cc -o hello hello.c && ./hello'), 'hello from C\n');
      if (lacks('cargo') === false)
        assert.match(await script('cargo init -q --vcs none /tmp/x && cd /tmp/x && cargo run -q'), /Hello/);
      writeFileSync(
        join(repository, 'hello.go'),
        'package main\n\nfunc main() { println("hello from Go") }\n',
      );
      if (lacks('go') === false) assert.equal(await script('go run hello.go 2>&1'), 'hello from Go\n');
    });

    it('vim edits by a script, and on a whole screen that changes its size', {
      skip: lacks('vim') || lacks('python3'),
    }, async () => {
      assert.equal(await script('vim -u NONE -es -c "%s/one/eins/" -c wq file.txt; cat file.txt'), 'eins\n');
      await using screen = terminal('--', 'sh', '-c', 'vim -u NONE -N made.txt; cat made.txt');
      await screen.see(/\[\?1049h[^]*made\.txt/);
      screen.resize(40, 120);
      screen.type('iin ');
      await screen.see(/INSERT/);
      screen.type('\u0012=&columns\r');
      await screen.see(/120/);
      screen.type(' columns\u001b:wq\r');
      await screen.see(/\[\?1049l[^]*in 120 columns\r\n/);
      assert.deepEqual(await screen.end(), { status: 0, restored: true });
    });

    it('tmux has a server, panes and keys', { skip: lacks('tmux') }, async () => {
      const said = await script(`
      tmux -f /dev/null new-session -d -s work -x 80 -y 20 'exec sh'
      tmux send-keys -t work 'stty size; echo in-$((20 + 22))' Enter
      for try in $(seq 100); do tmux capture-pane -p -t work | grep -q '^in-42' && break; sleep 0.1; done
      tmux split-window -d -t work 'exec sleep 60'; tmux list-panes -t work | wc -l
      tmux capture-pane -p -t work | grep -c '^in-42'; tmux kill-server`);
      assert.equal(said, '2\n1\n');
    });

    it('bash stops and resumes its jobs and learns of sizes', { skip: lacks('python3') }, async () => {
      await using shell = terminal('-e', 'PS1=ready> ', '--', 'bash', '--norc', '-i');
      await shell.see(/ready> $/);
      shell.type('sleep 600\r');
      await shell.see(/sleep 600\r\n/);
      shell.type('\u001a');
      await shell.see(/Stopped[^]*ready> $/);
      shell.type('bg; jobs\r');
      await shell.see(/Running +sleep 600[^]*ready> $/);
      shell.resize(41, 123);
      shell.type('sleep 0.2; /bin/true; echo $COLUMNS-$LINES\r');
      await shell.see(/123-41\r\n[^]*ready> $/);
      shell.type('fg\r');
      await shell.see(/\rsleep 600\r\n/);
      shell.type('\u0003');
      await shell.see(/ready> $/);
      shell.type('exit 0\r');
      assert.deepEqual(await shell.end(), { status: 0, restored: true });
    });

    it('a server inside is reached from this machine by a port of --publish, for as long as it runs', {
      skip: lacks('python3'),
    }, async () => {
      const words = [
        'box',
        'run',
        '--rm',
        '-p',
        '0:8000',
        '--',
        'python3',
        '-m',
        'http.server',
        '-b',
        '127.0.0.1',
      ];
      const child = startCli(undefined, words, { cwd: repository, env });
      const end = endOf(child);
      let said = '';
      child.stderr?.on('data', (part: Buffer) => {
        said += part.toString();
      });
      const port = await waitFor('the port', () => /127\.0\.0\.1:(\d+) is port 8000 of/.exec(said)?.[1]);
      const address = `http://127.0.0.1:${port}/file.txt`;
      const text = async (): Promise<string | undefined> =>
        await fetch(address).then(
          async (response) => await response.text(),
          () => undefined,
        );
      assert.equal(await waitFor('the page', text), 'one\n');
      const taken = await box(['run', '--rm', '-p', `${port}:80`, '--', 'true']);
      assert.equal(taken.code, 125);
      assert.match(taken.stderr, /port_taken/);
      child.kill('SIGINT');
      await end;
      assert.equal(await text(), undefined);
      const detached = await box(['run', '-d', '-p', '8000', '--', 'true']);
      assert.match(detached.stderr, /box attach/);
    });

    it('a server inside is reached by a port that a policy publishes, a project’s where it is trusted', {
      skip: lacks('python3'),
    }, async () => {
      const file = join(repository, 'squash-box.toml');
      writeFileSync(file, 'version = 1\n[ports]\npublish = ["0:8000"]\n');
      const serve = 'python3 -m http.server -b 127.0.0.1 >/dev/null 2>&1';
      try {
        const untrusted = await box(['run', '--rm', '--', 'true']);
        assert.match(untrusted.stderr, /is not trusted/);
        assert.doesNotMatch(untrusted.stderr, /is port/);
        assert.equal((await box(['trust', 'add'])).code, 0);
        const printed = JSON.parse((await box(['run', '--print-policy', '--', 'true'])).stdout.toString());
        assert.deepEqual(printed.ports, { publish: ['0:8000'] });
        const words = ['box', 'run', '--rm', '--', 'sh', '-c', serve];
        const child = startCli(undefined, words, { cwd: repository, env });
        const end = endOf(child);
        await using stack = new AsyncDisposableStack();
        stack.defer(async () => {
          child.kill('SIGINT');
          await end;
        });
        let said = '';
        child.stderr?.on('data', (part: Buffer) => {
          said += part.toString();
        });
        const port = await waitFor('the port', () => /127\.0\.0\.1:(\d+) is port 8000 of/.exec(said)?.[1]);
        const text = async (): Promise<string | undefined> =>
          await fetch(`http://127.0.0.1:${port}/file.txt`).then(
            async (response) => await response.text(),
            () => undefined,
          );
        assert.equal(await waitFor('the page', text), 'one\n');
        for (const Shown of noBrowser === undefined ? thisTurn([Browser]) : []) {
          await using browser = await Shown.start();
          const page = await browser.open(`http://127.0.0.1:${port}/file.txt`);
          await page.until('document.body?.innerText.trim() === "one"');
        }
        child.kill('SIGINT');
        await end;
        assert.equal(await text(), undefined);
      } finally {
        await box(['trust', 'revoke']);
        rmSync(file);
      }
    });

    it('a program replaces its settings, which are one file, and ours stay', async () => {
      const settings = join(work, 'settings.json');
      writeFileSync(settings, '{"kept":true}', { mode: 0o600 });
      const text = `cd ${work}; cat settings.json; echo '{}' > new.json; mv new.json settings.json; cat settings.json; stat -c %u settings.json`;
      const said = await printed(['run', '--rm', '--cow', settings, '--', 'sh', '-ec', text]);
      assert.equal(said, `{"kept":true}{}\n${process.getuid?.()}\n`);
      assert.equal(readFileSync(settings, 'utf8'), '{"kept":true}');
      const closed = await box(['run', '--cow', join(userInfo().homedir, '.ssh'), '--', 'true']);
      assert.notEqual(closed.code, 0);
    });

    it('a sandbox of a program’s own is refused by its own words, not left out', {
      skip: lacks('bwrap'),
    }, async () => {
      const end = await box(['run', '--rm', '--', 'bwrap', '--ro-bind', '/', '/', 'true']);
      assert.equal(end.code, 1);
      assert.match(end.stderr, /No permissions to create a? ?new namespace/);
    });
  });

  it('leaves nothing behind', async () => {
    assert.equal(await printed(['ps', '-q']), '');
    await waitFor('the daemon to end', () => processesOf(data).length === 0, 60_000);
    await expectNoLeaks(data);
    const changed = execFileSync('git', ['-C', repository, 'status', '--short'], { encoding: 'utf8' });
    assert.doesNotMatch(changed, /^(?!\?\? (?:wheel|test_case|hello)\.\w+$)./m);
  });
});
