/**
 * `squash box` as an ordinary user has it: his home, his shell's environment, no daemon before and none after. What a box may see is tried
 * by programs inside it.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Line } from '../../cli/src/box/story.ts';
import { cliCommand, type CliEnd, cliEnvironment, endOf, squash, startCli } from '../support/cli.ts';
import { expectNoLeaks, processes, processesOf, signalAll } from '../support/leaks.ts';
import { ownedPrefix, removeAbandoned } from '../support/owned-directory.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;
const hasPython = spawnSync('python3', ['-c', 'import pty']).status === 0;

describe('squash box', { skip }, () => {
  const { homedir: home } = userInfo();
  let data: string;
  let work: string;
  let repository: string;
  let env: Record<string, string>;

  before(() => {
    data = join(mkdtempSync(join(tmpdir(), ownedPrefix('box'))), 'data');
    work = mkdtempSync(join(home, 'squash-box-test-'));
    repository = join(work, 'project');
    mkdirSync(join(repository, 'src'), { recursive: true });
    execFileSync('git', ['init', '-q', repository]);
    writeFileSync(join(repository, 'src/main.txt'), 'as it was\n');
    // Whoever wrote the repository would have the daemon elsewhere, or not at all.
    writeFileSync(join(repository, '.env'), 'SQUASH_LOG_LEVEL=nonsense\nSQUASH_RUN=/nowhere\n');
    writeFileSync(join(work, 'beside.txt'), 'hidden\n');
    env = {
      SQUASH_BOX_DATA: data,
      SQUASH_DATA: join(data, 'none'),
      SQUASH_IDLE_EXIT_S: '2',
      SQUASH_MEMORY_RESERVE_MB: '0',
      A_SECRET_TOKEN: 'of-the-shell',
    };
  });

  after(async () => {
    rmSync(work, { recursive: true, force: true });
    // A test that failed may have left the daemon with a box.
    await removeAbandoned(join(data, '..'));
  });

  const box = async (
    words: readonly string[],
    options: { cwd?: string; input?: string } = {},
  ): Promise<CliEnd> => await squash(undefined, ['box', ...words], { cwd: repository, env, ...options });

  const printed = async (
    words: readonly string[],
    options: { cwd?: string; input?: string } = {},
  ): Promise<string> => {
    const end = await box(words, options);
    assert.equal(end.code, 0, end.stderr);
    return end.stdout.toString();
  };

  const ids = async (): Promise<readonly string[]> =>
    (await printed(['ps', '-q'])).split('\n').filter((id) => id !== '');

  it('shows of the home directory the repository alone, also of what appears later', async () => {
    const script = `ls -A "$HOME"; ls -A ${work}; cat ${work}/beside.txt; echo "$HOME $(id -u) $PWD"; cat src/main.txt`;
    const end = await box(['run', '--', 'sh', '-c', script]);
    const lines = end.stdout.toString().trimEnd().split('\n');
    assert.deepEqual(
      lines.slice(-2),
      [`${home} ${process.getuid?.()} ${repository}`, 'as it was'],
      end.stderr,
    );
    assert.ok(lines.includes('project') && !lines.includes('beside.txt'), lines.join(' '));
    const inHome = readdirSync(home).filter(
      (name) => !name.startsWith('squash-box-test-') && !name.startsWith('.'),
    );
    for (const name of inHome) assert.ok(!lines.includes(name), name);

    const child = startCli(
      undefined,
      ['box', 'run', '--', 'sh', '-c', `echo ready; read line; cat ${work}/later.txt`],
      {
        cwd: repository,
        env,
      },
    );
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    writeFileSync(join(work, 'later.txt'), 'later\n');
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    child.stdin?.end('go\n');
    assert.equal(await ended, 1);
    assert.deepEqual(await ids(), [], 'a box that wrote nothing is removed');
  });

  it('keeps what was written to the repository from the host, and the box until it is removed', async () => {
    const end = await box([
      'run',
      '--name',
      'writer',
      '--',
      'sh',
      '-c',
      'echo changed > src/main.txt; echo new > new.txt',
    ]);
    assert.equal(end.code, 0, end.stderr);
    assert.equal(readFileSync(join(repository, 'src/main.txt'), 'utf8'), 'as it was\n');
    assert.ok(!existsSync(join(repository, 'new.txt')));
    const [id = ''] = await ids();
    assert.match(
      end.stderr,
      new RegExp(`^squash: box ${id} keeps what was written to .*\\nsquash: .*squash box rm ${id}\\n$`),
    );
    assert.match(await printed(['ps']), /writer +stopped +\d+s +[1-9][\d.]* kB/);
    assert.equal(await printed(['exec', 'writer', '--', 'cat', 'src/main.txt', 'new.txt']), 'changed\nnew\n');
    assert.match(await printed(['ps']), /writer +stopped/);
    assert.equal(await printed(['rm', 'writer']), `${id}\n`);
    assert.deepEqual(await ids(), []);
    assert.equal(
      execFileSync('git', ['-C', repository, 'status', '--short'], { encoding: 'utf8' }),
      '?? .env\n?? src/\n',
    );
  });

  it('shows and brings what was written to the repository where more around it is copy-on-write', async () => {
    const script = 'echo part > part.txt; echo beside > ../new.txt';
    await printed(['run', '--name', 'wide', '--cow', work, '--', 'sh', '-c', script]);
    assert.equal(await printed(['diff', 'wide']), '+ 0644 project/part.txt\n');
    assert.match(await printed(['diff', 'wide', '--place', work]), /^\+ 0644 new\.txt$/m);
    assert.equal(await printed(['apply', 'wide', '--rm']), 'project/part.txt\n');
    assert.equal(readFileSync(join(repository, 'part.txt'), 'utf8'), 'part\n');
    assert.ok(!existsSync(join(work, 'new.txt')));
    rmSync(join(repository, 'part.txt'));
  });

  it('removes with --rm, keeps with --keep, and writes through with --repo rw', async () => {
    await printed(['run', '--rm', '--', 'sh', '-c', 'echo x > gone.txt']);
    assert.deepEqual(await ids(), []);
    await printed(['run', '--keep', '--', 'true']);
    const [id = ''] = await ids();
    await printed(['rm', id]);
    await printed(['run', '--repo', 'rw', '--', 'sh', '-c', 'echo x > through.txt']);
    assert.equal(readFileSync(join(repository, 'through.txt'), 'utf8'), 'x\n');
    rmSync(join(repository, 'through.txt'));
    const end = await box(['run', '--repo', 'ro', '--', 'sh', '-c', 'echo x > no.txt']);
    assert.notEqual(end.code, 0);
    assert.deepEqual(await ids(), []);
  });

  it('ends as the command does, and with codes of its own where none ran', async () => {
    for (const [words, code, said] of [
      [['--', 'sh', '-c', 'exit 7'], 7, /^$/],
      [['--', 'sh', '-c', 'kill -TERM $$'], 143, /^$/],
      [['--', 'no-such-program'], 127, /exec_failed/],
      [['--ro', 'no-such-file', '--', 'true'], 125, /no such file/],
      [['--ro', '/etc/shadow', '--', 'true'], 126, /host_path_refused/],
      [['--time', '1s', '--', 'sleep', '600'], 124, /out of time/],
    ] as const) {
      const end = await box(['run', ...words]);
      assert.equal(end.code, code, `${words.join(' ')}: ${end.stderr}`);
      assert.match(end.stderr, said, words.join(' '));
    }
    const refused = await box(['run', '--', 'true'], { cwd: home });
    assert.equal(refused.code, 126);
    assert.match(refused.stderr, /box_refused/);
    assert.deepEqual(await ids(), []);
  });

  it('passes variables of its list and those that are named, and standard streams', async () => {
    const text = await printed(['run', '-e', 'GIVEN=as given', '-e', 'TERM', '--', 'env']);
    assert.match(text, /^GIVEN=as given$/m);
    assert.match(text, /^TERM=xterm$/m);
    assert.match(text, new RegExp(`^HOME=${home}$`, 'm'));
    assert.doesNotMatch(text, /of-the-shell|SQUASH_/);
    assert.match(
      await printed(['run', '-e', 'A_SECRET_TOKEN', '--', 'env']),
      /^A_SECRET_TOKEN=of-the-shell$/m,
    );
    assert.equal(await printed(['run', '--', 'cat'], { input: 'a line\n' }), 'a line\n');
  });

  it('tells what it would do without doing it', async () => {
    const policy: unknown = JSON.parse(
      await printed(['run', '--print-policy', '--hide', '.env', '--', 'true']),
    );
    const { fs, net } = policy as { fs: Record<string, string>; net: { allow: unknown[] } };
    assert.equal(fs[repository], 'cow');
    assert.equal(fs[join(repository, '.env')], 'hidden');
    assert.deepEqual(net.allow, ['none']);
    assert.match(await printed(['run', '--dry-run', '--', 'touch', 'x']), /Would run: touch x/);
    assert.equal(
      await printed(['run', '--hide', '.env', '--', 'sh', '-c', 'ls -A | grep -c env || true']),
      '0\n',
    );
  });

  it('gives a terminal with its size and job control', {
    skip: hasPython ? false : 'python3 is not installed',
  }, async () => {
    const words = [...cliCommand, 'box', 'run', '--rm', '-e', 'PS1=ready> ', '--', 'sh', '-i'];
    const inRepository = ['sh', '-c', `cd ${repository} && exec "$@"`, 'sh', ...words];
    await using terminal = new Terminal(inRepository, {
      rows: 33,
      columns: 101,
      env: { ...cliEnvironment(undefined), ...env },
    });
    await terminal.see(/ready> $/);
    terminal.type('stty size\r');
    await terminal.see(/\r\n33 101\r\n/);
    terminal.resize(50, 132);
    terminal.type(`until [ "$(stty size)" = "50 132" ]; do sleep 0.05; done; echo re''sized\r`);
    await terminal.see(/resized\r\n/);
    terminal.type('sleep 600\r');
    await terminal.see(/sleep 600\r\n/);
    terminal.type('\u001a');
    await terminal.see(/Stopped|suspended/i);
    terminal.type('fg\r');
    await terminal.see(/fg\r\nsleep 600\r\n/);
    terminal.type('\u0003');
    await terminal.see(/ready> $/);
    terminal.type('exit 5\r');
    assert.deepEqual(await terminal.end(), { status: 5 * 256, restored: true });
  });

  it('goes on detached, is listed, attached to, and stopped', async () => {
    const id = (
      await printed(['run', '-d', '--name', 'worker', '--', 'sh', '-c', 'echo begun; exec sleep 600'])
    ).trim();
    assert.match(await printed(['ps']), /worker +ready/);
    const attached = startCli(undefined, ['box', 'attach', 'worker'], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const first = await new Promise<Buffer>((resolve) => attached.stdout?.once('data', resolve));
    assert.equal(first.toString(), 'begun\n');
    attached.kill('SIGKILL');
    const watching = startCli(undefined, ['box', 'ps', '--watch', '--json'], { env });
    let seen = '';
    watching.stdout?.on('data', (part: Buffer) => {
      seen += part.toString();
    });
    const lines = await waitFor('two lists', () => {
      const whole = seen.split('\n').slice(0, -1);
      return whole.length >= 2 ? whole : undefined;
    });
    watching.kill('SIGKILL');
    for (const line of lines) assert.deepEqual(JSON.parse(line)[0].name, 'worker');
    // What is looked at, one by one, could be another by the time of a yes.
    assert.match((await box(['apply', 'worker', '-i'])).stderr, /\(box_running\)/);
    assert.equal(await printed(['stop', 'worker']), `${id}\n`);
    assert.match(await printed(['ps']), /worker +stopped/);
    assert.equal(await printed(['rm', id]), `${id}\n`);
    const missing = await box(['rm', id]);
    assert.match(missing.stderr, /sandbox_not_found/);
  });

  it('tells what happened to it, of every kind in one stream, until it is removed', async () => {
    const script = 'exec 3<>/dev/tcp/192.0.2.1/443; exec sleep 600';
    const words = ['run', '-d', '--name', 'told', '--time', '2s', '--net', 'localhost.example:443'];
    const id = (await printed([...words, '--', 'bash', '-c', script])).trim();
    const following = startCli(undefined, ['box', 'events', 'told', '--follow', '--json'], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const end = endOf(following);
    let text = '';
    following.stdout?.on('data', (part: Buffer) => (text += part.toString()));
    const lines = (): readonly Line[] =>
      text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Line);
    const has = (kind: Line['kind'], what: RegExp): boolean =>
      lines().some((line) => line.kind === kind && what.test(line.what));
    const isTold = (kind: Line['kind'], what: RegExp): Promise<unknown> =>
      waitFor(`${kind} ${String(what)}`, () => has(kind, what));
    await isTold('network', /^denied connection 192\.0\.2\.1:443 by /);
    await isTold('limit', /^\d+ ended with 124 \(timed_out\)$/);
    assert.equal((await box(['exec', id, '--', 'sh', '-c', 'exit 3'])).code, 3);
    await isTold('process', /^\d+ ended with 3$/);
    await printed(['rm', id]);
    assert.equal((await end).code, 0);
    assert.ok(has('box', /^created/) && has('box', /^destroyed/), text);
    const began = lines().filter((line) => / began: bash -c 'exec 3/.test(line.what));
    assert.equal(began.length, 1, text);
  });

  it('ends with the command line that started it', async () => {
    for (const signal of ['SIGTERM', 'SIGHUP', 'SIGKILL'] as const) {
      const marker = `60${signal.length}${Date.now() % 100_000}`;
      const child = startCli(undefined, ['box', 'run', '--', 'sh', '-c', `echo ready; sleep ${marker}`], {
        cwd: repository,
        env,
      });
      await new Promise((resolve) => child.stdout?.once('data', resolve));
      const ended = new Promise((resolve) => child.once('close', resolve));
      child.kill(signal);
      await ended;
      await waitFor(
        `no process of the box after ${signal}`,
        () => !processes().some(({ command }) => command === `sleep ${marker}`),
      );
    }
  });

  it('is ended by the daemon when nobody waits for it: removed, or stopped where it wrote to the repository', async () => {
    for (const id of await ids()) await printed(['rm', id]);
    await printed(['run', '-d', '--name', 'wrote-nothing', '--', 'true']);
    await printed(['run', '-d', '--name', 'wrote', '--', 'sh', '-c', 'echo x > by-worker.txt']);
    await printed(['run', '-d', '--name', 'works', '--', 'sleep', '600']);
    const marker = `61${Date.now() % 1_000_000}`;
    const stubborn = `trap '' HUP; echo x > stubborn.txt; echo ready; exec sleep ${marker}`;
    const child = startCli(undefined, ['box', 'run', '--name', 'stubborn', '--', 'sh', '-c', stubborn], {
      cwd: repository,
      env,
    });
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    child.kill('SIGKILL');
    let list = '';
    for (let looks = 0; looks < 30 && !/wrote +stopped[^]*stubborn +stopped/.test(list); looks += 1) {
      await sleep(1_000);
      list = await printed(['ps']);
    }
    assert.match(list, /wrote +stopped[^]*works +ready[^]*stubborn +stopped/);
    assert.doesNotMatch(list, /wrote-nothing/);
    assert.ok(!processes().some(({ command }) => command === `sleep ${marker}`));
    assert.equal(await printed(['exec', 'stubborn', '--', 'cat', 'stubborn.txt']), 'x\n');
    for (const name of ['wrote', 'works', 'stubborn']) await printed(['rm', name]);
  });

  it('is left by Ctrl-] and attached to again, and completed by its id', {
    skip: hasPython ? false : 'python3 is not installed',
  }, async () => {
    const id = (
      await printed(['run', '-d', '-t', '--name', 'shell', '-e', 'PS1=ready> ', '--', 'sh', '-i'])
    ).trim();
    const attach = (): Terminal =>
      new Terminal([...cliCommand, 'box', 'attach', 'shell'], {
        rows: 33,
        columns: 101,
        env: { ...cliEnvironment(undefined), ...env },
      });
    await using first = attach();
    await first.see(/ready> $/);
    first.type('kept=still; stty size\r');
    await first.see(/\r\n33 101\r\n/);
    first.type('\u001d');
    assert.deepEqual(await first.end(), { status: 0, restored: true });
    const words = (await squash(undefined, ['__complete', '--', 'box', 'attach', ''], { env })).stdout;
    assert.match(words.toString(), new RegExp(id));
    const ofPolicy = (await squash(undefined, ['__complete', '--', 'box', 'policy', ''], { env })).stdout;
    assert.equal(ofPolicy.toString(), 'show\ncheck\ndiff\nimport\n');
    const odd = await squash(undefined, ['box', 'events', '--kind', 'odd', id], { env });
    assert.match(odd.stderr, /--kind is box, process/);
    await using second = attach();
    await second.see(/ready> $/);
    second.type('echo $kept-here; exit 4\r');
    await second.see(/still-here/);
    assert.deepEqual(await second.end(), { status: 4 * 256, restored: true });
    await printed(['rm', id]);
  });

  it('is had of a daemon of the user that runs already, where that offers the host’s root', async () => {
    const own = join(data, '../own');
    const project = join(work, 'shared');
    mkdirSync(project);
    writeFileSync(join(project, 'main.txt'), 'as it was\n');
    const shared = { cwd: project, env: { ...env, SQUASH_DATA: own } };
    const serve = startCli(undefined, ['serve'], {
      env: { ...shared.env, SQUASH_HOST_ROOT: '1', SQUASH_PORT: 'off', SQUASH_IDLE_EXIT_S: '5' },
      stdio: 'ignore',
    });
    const ended = new Promise((resolve) => serve.once('close', resolve));
    await waitFor('the daemon', () => existsSync(join(own, 'run/api.sock')), 30_000);
    const words = ['box', 'run', '--keep', '--name', 'beside', '--', 'cat', 'main.txt'];
    const end = await squash(undefined, words, shared);
    assert.equal(end.stdout.toString(), 'as it was\n', end.stderr);
    assert.match((await squash(undefined, ['ls'], shared)).stdout.toString(), /beside/);
    assert.match((await squash(undefined, ['box', 'ps'], shared)).stdout.toString(), /beside +stopped/);
    assert.deepEqual(await ids(), []);
    assert.equal((await squash(undefined, ['box', 'rm', 'beside'], shared)).code, 0);
    await ended;
    await expectNoLeaks(own);
  });

  it('leaves no egress process of a daemon that had no box, however late that process is', async () => {
    await waitFor('the daemon to end', () => processesOf(data).length === 0, 60_000);
    const end = await box(['run', '--ro', '/etc/shadow', '--', 'true']);
    assert.match(end.stderr, /host_path_refused/);
    const isEgress = ({ command }: { readonly command: string }): boolean =>
      command.includes('/egress/src/main.ts');
    // As on a machine that has much else to do.
    await waitFor('the egress process', () => processesOf(data).some(isEgress));
    signalAll(data, 'SIGSTOP', isEgress);
    await waitFor('the daemon to end', () => processesOf(data).length === 0, 30_000);
    await expectNoLeaks(data);
  });

  it('starts one daemon for several command lines at once, and leaves nothing behind after the last box', async () => {
    await waitFor('the daemon to end', () => processesOf(data).length === 0, 60_000);
    const ends = await Promise.all([1, 2, 3].map(async () => await printed(['run', '--', 'echo', 'done'])));
    assert.deepEqual(ends, ['done\n', 'done\n', 'done\n']);
    await waitFor('the daemon to end', () => processesOf(data).length === 0, 60_000);
    await expectNoLeaks(data);
    assert.equal(
      execFileSync('git', ['-C', repository, 'status', '--short'], { encoding: 'utf8' }),
      '?? .env\n?? src/\n',
    );
  });
});
