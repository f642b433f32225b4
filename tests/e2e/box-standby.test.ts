/**
 * `./squash box run` where a command line stands by: that it has the call can be seen by the program that the caller's process is, and by
 * nothing else.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { arch, tmpdir, userInfo } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { repository as project } from '../support/base-layer.ts';
import { cliEnvironment, endOf } from '../support/cli.ts';
import { expectNoLeaks, processes, processesOf } from '../support/leaks.ts';
import { ownedPrefix, removeAbandoned } from '../support/owned-directory.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;
const hasPython = spawnSync('python3', ['-c', 'import pty']).status === 0;
const hasUnshare = spawnSync('unshare', ['--user', '--map-current-user', 'true']).status === 0;
const program = join(project, 'squash');

describe('a command line that stands by', { skip }, () => {
  let data: string;
  let work: string;
  let env: Record<string, string>;

  before(() => {
    data = join(mkdtempSync(join(tmpdir(), ownedPrefix('standby'))), 'data');
    work = mkdtempSync(join(userInfo().homedir, 'squash-standby-test-'));
    execFileSync('git', ['init', '-q', work]);
    env = {
      ...cliEnvironment(undefined),
      SQUASH_BOX_DATA: data,
      SQUASH_DATA: join(data, 'none'),
      SQUASH_IDLE_EXIT_S: '3',
      SQUASH_MEMORY_RESERVE_MB: '0',
    };
  });

  after(async () => {
    rmSync(work, { recursive: true, force: true });
    await removeAbandoned(join(data, '..'));
  });

  const start = (
    words: readonly string[],
    more: { readonly env?: object; readonly before?: readonly string[] } = {},
  ): ChildProcess => {
    const [first = '', ...rest] = [...(more.before ?? []), program, 'box', 'run', ...words];
    return spawn(first, rest, { cwd: work, env: { ...env, ...more.env }, stdio: 'pipe' });
  };

  /** A connection that brings no call is none. */
  const answers = async (): Promise<boolean> =>
    await new Promise((resolve) => {
      const socket = connect(join(data, 'standby.sock'), () => {
        socket.destroy();
        resolve(true);
      });
      socket.once('error', () => resolve(false));
    });

  const standby = async (): Promise<number> => {
    await waitFor('a command line that stands by', answers);
    const found = processes().find(({ command }) => command.includes(`standby.cjs ${data} `));
    assert.ok(found !== undefined);
    return found.pid;
  };

  /** One call, of which the next has a command line. */
  const warm = async (): Promise<number> => {
    if (!(await answers())) {
      const end = await endOf(start(['true']));
      assert.equal(end.code, 0, end.stderr);
    }
    return await standby();
  };

  const said = async (child: ChildProcess): Promise<string> =>
    await new Promise((resolve, reject) => {
      child.stdout?.once('data', (part: Buffer) => resolve(part.toString()));
      child.once('close', (code) => reject(new Error(`it ended with ${code} and said nothing`)));
    });

  const programOf = ({ pid = 0 }: Pick<ChildProcess, 'pid'>): string =>
    basename(readlinkSync(`/proc/${pid}/exe`));

  it('runs the call as a new one would, with the same streams, directory, environment and exit code', async () => {
    const script =
      'echo ready; read -r line; echo "$line $0 $PWD $A $(umask)"; echo err >&2; ls /none; exit 7';
    const words = ['-e', 'A', '--', 'sh', '-c', script, 'with spaces\nand lines'];
    const ends = [];
    for (const [SQUASH_STANDBY, expected] of [
      ['off', 'node'],
      ['on', 'squash-call'],
    ] as const) {
      await warm();
      const child = start(words, { env: { SQUASH_STANDBY, A: `$'"ä\n` } });
      const end = endOf(child);
      await said(child);
      assert.equal(programOf(child), expected);
      child.stdin?.end('typed\n');
      ends.push(await end);
    }
    const [own, handed] = ends;
    assert.equal(handed?.code, 7, handed?.stderr);
    assert.deepEqual(handed, own);
    const refused = await endOf(start(['--nonsense']));
    assert.equal(refused.code, 125);
    assert.match(refused.stderr, /--nonsense/);
  });

  it('passes signals on, and goes with its caller', async () => {
    await warm();
    const interrupted = start([
      '--',
      'sh',
      '-c',
      'trap "exit 9" INT; echo ready; while :; do sleep 0.05; done',
    ]);
    const end = endOf(interrupted);
    await said(interrupted);
    assert.equal(programOf(interrupted), 'squash-call');
    interrupted.kill('SIGINT');
    assert.equal((await end).code, 9);

    const pid = await warm();
    const marker = `61${Date.now() % 100_000}`;
    const killed = start(['--', 'sh', '-c', `echo ready; sleep ${marker}`]);
    const over = endOf(killed);
    await said(killed);
    killed.kill('SIGKILL');
    await over;
    await waitFor('neither the command line nor the command', () =>
      processes().every((entry) => entry.pid !== pid && entry.command !== `sleep ${marker}`),
    );
  });

  it('that is killed ends its caller, and the box with it', async () => {
    const pid = await warm();
    const marker = `62${Date.now() % 100_000}`;
    const child = start(['--', 'sh', '-c', `echo ready; sleep ${marker}`]);
    const end = endOf(child);
    await said(child);
    process.kill(pid, 'SIGKILL');
    const { code, stderr } = await end;
    assert.equal(code, 137);
    assert.match(stderr, /was killed \(aborted\)/);
    await waitFor('no command', () => processes().every(({ command }) => command !== `sleep ${marker}`));
    assert.equal((await endOf(start(['true']))).code, 0);
  });

  it('that was killed before, or does not answer, is done without', async () => {
    process.kill(await warm(), 'SIGKILL');
    assert.equal((await endOf(start(['true']))).code, 0);
    const stopped = await warm();
    process.kill(stopped, 'SIGSTOP');
    const child = start(['--', 'sh', '-c', 'echo ready; read -r line']);
    const end = endOf(child);
    await said(child);
    assert.equal(programOf(child), 'node');
    child.stdin?.end('\n');
    assert.equal((await end).code, 0);
    process.kill(stopped, 'SIGKILL');
  });

  it('takes no call in other namespaces than its own, and none that is no call', {
    skip: hasUnshare ? false : 'no user namespaces',
  }, async () => {
    await warm();
    const pid = await warm();
    const apart = await endOf(
      start(['--no-such-word'], { before: ['unshare', '--user', '--map-current-user'] }),
    );
    assert.equal(apart.code, 125);
    const other = join(work, 'other.cjs');
    writeFileSync(other, 'process.stdout.write(process.argv.slice(2).join());');
    const call = join(project, `native/build/${arch() === 'arm64' ? 'aarch64' : 'x86_64'}/squash-call`);
    const of = spawnSync(call, [process.execPath, other, 'box', 'run'], { env, encoding: 'utf8' });
    assert.equal(of.stdout, 'box,run', 'a program that it is not');
    for (const bytes of [
      '',
      'x',
      'y'.repeat(100_000),
      Buffer.from('43535131ffffffff0000000000000000', 'hex'),
    ]) {
      const socket = connect(join(data, 'standby.sock'));
      socket.on('error', () => {});
      const closed = new Promise((resolve) => socket.once('close', resolve));
      socket.resume().end(bytes);
      await closed;
    }
    assert.equal(await standby(), pid);
  });

  it('has its caller’s terminal: size, Ctrl-Z and fg', {
    skip: hasPython ? false : 'python3 is not installed',
  }, async () => {
    await warm();
    const shell = ['bash', '--norc', '-i'];
    await using terminal = new Terminal(['sh', '-c', `cd ${work} && exec "$@"`, 'sh', ...shell], {
      rows: 33,
      columns: 101,
      env: { ...env, PS1: 'outer> ' },
    });
    await terminal.see(/outer> $/);
    terminal.type(`${program} box run --rm -e PS1='inner> ' -- sh -i\r`);
    await terminal.see(/inner> $/);
    terminal.type('stty size\r');
    await terminal.see(/\r\n33 101\r\n/);
    terminal.resize(50, 132);
    terminal.type(`until [ "$(stty size)" = "50 132" ]; do sleep 0.05; done; echo re''sized\r`);
    await terminal.see(/resized\r\n/);
    terminal.type('exit 5\r');
    await terminal.see(/outer> $/);
    terminal.type('echo "code $?"\r');
    await terminal.see(/code 5\r\n/);

    await warm();
    terminal.type(`${program} box run --rm -- sh -c 'echo be''gun >&2; sleep 600' > ${work}/out\r`);
    await terminal.see(/begun/);
    terminal.type('\u001a');
    await terminal.see(/Stopped[^]*outer> $/);
    terminal.type('fg\r');
    await terminal.see(/fg\r\n/);
    terminal.type('\u0003');
    await terminal.see(/outer> $/);
    terminal.type('exit 0\r');
    assert.deepEqual(await terminal.end(), { status: 0, restored: true });
  });

  it('stops with the box’s own command at Ctrl-Z, as a command line of its own does, and goes on with fg', {
    skip: hasPython ? false : 'python3 is not installed',
  }, async () => {
    // The job is more than the command line, as where a script or `time` calls it.
    const call = (script: string): string =>
      `sh -c '"$@"; exit $?' sh ${program} box run --rm -- sh -c '${script}'\r`;
    for (const [SQUASH_STANDBY, expected] of [
      ['off', 'node'],
      ['on', 'squash-call'],
    ] as const) {
      await warm();
      await using terminal = new Terminal(
        ['sh', '-c', `cd ${work} && exec "$@"`, 'sh', 'bash', '--norc', '--noediting', '-i'],
        { rows: 33, columns: 101, env: { ...env, PS1: 'outer> ', SQUASH_STANDBY } },
      );
      await terminal.see(/outer> $/);
      terminal.type(call('echo be""gun; cat; stty size; exit 5'));
      await terminal.see(/begun\r\n/);
      assert.ok(
        processes().some(
          ({ pid, command }) =>
            command.includes('box run --rm -- sh -c echo be') && programOf({ pid }) === expected,
        ),
      );
      // A shell that is starting a program (vfork) waits for one that was stopped before it began.
      terminal.type('none\r');
      await terminal.see(/none\r\nnone\r\n/);
      terminal.type('\u001a');
      await terminal.see(/Stopped[^]*outer> $/);
      // What is typed is the shell's.
      terminal.type('stty -a | tr ";" "\\n" | grep -c "[^-]icanon"\r');
      await terminal.see(/\r\n1\r\n[^]*outer> $/);
      terminal.resize(50, 132);
      terminal.type('fg\r');
      await terminal.see(/box run[^\n]*\r\n/);
      terminal.type('one\r');
      await terminal.see(/one\r\n(?:\^Z)?one\r\n/);
      terminal.type('\u001a');
      await terminal.see(/Stopped[^]*outer> $/);
      terminal.type('fg\r');
      await terminal.see(/box run[^\n]*\r\n/);
      terminal.type('\u0004');
      await terminal.see(/50 132\r\n[^]*outer> $/);
      terminal.type('echo "code $?"\r');
      await terminal.see(/code 5\r\n[^]*outer> $/);
      // A job that is ended while it stands still.
      await warm();
      terminal.type(call('echo be""gun; exec cat'));
      await terminal.see(/begun\r\n/);
      terminal.type('\u001a');
      await terminal.see(/Stopped[^]*outer> $/);
      terminal.type('kill -9 %1; wait; echo en""ded\r');
      await terminal.see(/ended\r\n[^]*outer> $/);
      await waitFor('nothing of it', () =>
        processes().every(({ command }) => !command.includes('echo be""gun; exec cat')),
      );
      terminal.type('exit 0\r');
      assert.deepEqual(await terminal.end(), { status: 0, restored: true });
    }
  });

  it('ends with the daemon and leaves nothing', async () => {
    const pid = await warm();
    await waitFor('the daemon’s end', () => processesOf(data).length === 0, 60_000);
    assert.throws(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8').length || assert.fail());
    assert.ok(!existsSync(join(data, 'standby.sock')));
    await expectNoLeaks(data);
  });

  it('where no daemon runs, one is begun as the last was before a command line is there', async () => {
    const words = join(data, 'log/start.words');
    const quick = { SQUASH_IDLE_EXIT_S: '1' };
    const gone = async (): Promise<void> => {
      await waitFor('the daemon’s end', () => processesOf(data).length === 0, 60_000);
      await expectNoLeaks(data);
    };
    /** A call that asks for no daemon: who is there was begun before it. */
    const ask = async (more: object = {}): Promise<void> => {
      const { code } = await endOf(start(['--nonsense'], { env: { ...quick, ...more } }));
      assert.equal(code, 125);
    };
    assert.equal((await endOf(start(['true'], { env: quick }))).code, 0);
    await gone();
    await ask();
    await waitFor('a daemon', () => existsSync(join(data, 'run/api.sock')));
    await gone();
    assert.equal((await endOf(start(['sh', '-c', 'exit 6'], { env: quick }))).code, 6);
    await gone();

    await ask({ SQUASH_LOG_LEVEL: 'debug' });
    assert.deepEqual(processesOf(data), [], 'another environment');
    const kept = readFileSync(words);
    for (const [what, spoil] of [
      ['writable for others', () => chmodSync(words, 0o622)],
      ['cut off', () => writeFileSync(words, kept.subarray(0, kept.length / 2))],
      ['no words', () => writeFileSync(words, 'x\0'.repeat(9_000))],
      ['older than the sources', () => utimesSync(words, 1, 1)],
      ['a link', () => symlinkSync('/proc/self/environ', words)],
    ] as const) {
      rmSync(words);
      writeFileSync(words, kept, { mode: 0o600 });
      if (what === 'a link') rmSync(words);
      spoil();
      await ask();
      assert.deepEqual(processesOf(data), [], what);
    }
    assert.equal((await endOf(start(['true'], { env: quick }))).code, 0);
    await gone();
  });
});
