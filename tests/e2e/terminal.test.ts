/** `squash exec -t` on a real terminal: job control, sizes, raw bytes, and the terminal as it was on every way out. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { cliCommand, cliEnvironment, squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { processes } from '../support/leaks.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

/**
 * The shell in the sandbox asks for the cursor's place after its prompt, which no terminal of a test answers; and where its terminal
 * gets another size it draws the line anew.
 */
const prompt = /ready> (?:\W+\d*[A-Za-z])*$/;

const skip = spawnSync('python3', ['-c', 'import pty']).status === 0 ? false : 'python3 is not installed';

describe('squash exec -t', { skip }, () => {
  let daemon: TestDaemon;
  before(async () => {
    daemon = await TestDaemon.start();
    await squashOk(daemon, ['create', 'box', '--layers', '000-base-test']);
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
  });

  const open = (
    words: readonly string[],
    size: { rows: number; columns: number } = { rows: 24, columns: 80 },
  ) => new Terminal([...cliCommand, ...words], { ...size, env: { ...cliEnvironment(daemon), PS1: '$ ' } });
  const shell = () => open(['exec', '-t', '-e', 'PS1=ready> ', 'box', 'sh']);

  it('gives the command a terminal with our size, type and its changes', async () => {
    await using terminal = open(['exec', '-t', '-e', 'PS1=ready> ', 'box', 'sh'], { rows: 33, columns: 101 });
    await terminal.see(prompt);
    terminal.type('tty; stty size; echo $TERM\r');
    await terminal.see(/\/dev\/(pts\/\d+|console)\r\n33 101\r\nxterm\r\n/);
    terminal.resize(50, 132);
    terminal.type('until [ "$(stty size)" = "50 132" ]; do sleep 0.05; done; echo resized\r');
    await terminal.see(/\r\nresized\r\n/);
    terminal.type('exit 7\r');
    const end = await terminal.end();
    assert.deepEqual(end, { status: 7 * 256, restored: true });
  });

  it('shows the commands of logs and jobs on one line of the terminal each, and all of them in a pipe', async () => {
    const text = `echo ${'é漢字'.repeat(60)}`;
    const job = await squashOk(daemon, ['exec', '-d', 'box', '--shell', `${text}; sleep 600`]);
    await squash(daemon, ['exec', 'box', '--shell', text]);
    for (const command of ['logs', 'jobs']) {
      await using terminal = open([command, 'box'], { rows: 24, columns: 100 });
      const { status } = await terminal.end();
      assert.equal(status, 0);
      const lines = Buffer.from(terminal.screen, 'latin1').toString().trimEnd().split('\r\n');
      for (const line of lines.map((each) => stripVTControlCharacters(each))) {
        const cells = line.length + (line.match(/\p{Script=Han}/gu)?.length ?? 0);
        assert.ok(cells <= 100, `${cells}: ${line}`);
      }
      assert.match(lines.join('\n'), /echo é漢字.*…$/m);
      assert.ok((await squashOk(daemon, [command, 'box'])).includes('é漢字'.repeat(60)));
    }
    await squashOk(daemon, ['job', 'kill', 'box', job.trim()]);
  });

  it('attaches to a process with a terminal, leaves it by Ctrl-], and comes again', async () => {
    const body = { argv: ['sh'], env: { PS1: 'ready> ' }, pty: { rows: 10, columns: 20 }, tag: 'seat' };
    const response = await fetch(`${daemon.url}/v1/sandboxes/box/processes`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 201);
    await using terminal = open(['attach', 'box', 'seat'], { rows: 33, columns: 101 });
    await terminal.see(prompt);
    terminal.type('stty size; word=kept\r');
    await terminal.see(/33 101/);
    terminal.type('\u001d');
    assert.deepEqual(await terminal.end(), { status: 0, restored: true });
    await using again = open(['attach', 'box', 'seat']);
    await again.see(/33 101/);
    again.type('echo "$word"; exit 7\r');
    await again.see(/\r\nkept\r\n/);
    assert.deepEqual(await again.end(), { status: 7 * 256, restored: true });
  });

  it('has job control: Ctrl-C, Ctrl-Z, fg and Ctrl-D reach the command and not us', async () => {
    await using terminal = shell();
    await terminal.see(prompt);
    const runs = (name: string) =>
      waitFor(`${name} to run`, async () =>
        new RegExp(`^[SR]N? +${name}$`, 'm').test(
          await squashOk(daemon, ['exec', 'box', 'ps', '-o', 'stat,args']),
        ),
      );
    terminal.type('sleep 600\r');
    await runs('sleep 600');
    terminal.type('\u0003');
    await terminal.see(prompt);
    terminal.type('echo code $?\r');
    await terminal.see(/code 130\r\n/);
    terminal.type('sleep 601\r');
    await runs('sleep 601');
    terminal.type('\u001a');
    await terminal.see(/Stopped[^\n]*\r\n.*ready> \W*6?n?$/s);
    terminal.type('fg\r');
    await terminal.see(/sleep 601\r\n/);
    // The shell prints the name first, and takes a Ctrl-C until it has handed the terminal over.
    await runs('sleep 601');
    terminal.type('\u0003');
    await terminal.see(prompt);
    terminal.type('\u0004');
    assert.equal((await terminal.end()).restored, true);
  });

  it('changes no byte on the way: raw input arrives raw, output is not post-processed', async () => {
    await using terminal = open([
      'exec',
      '-t',
      'box',
      '-c',
      'stty raw -echo; echo go; head -c 6 | od -An -tx1; printf "a\\nb"; stty sane',
    ]);
    await terminal.see(/go/);
    terminal.type('\u0003\u001a\r\n\u0000\u0011');
    await terminal.see(/03 1a 0d 0a 00 11\na\nb/);
    assert.deepEqual(await terminal.end(), { status: 0, restored: true });
  });

  it('puts the terminal back when the command is killed, times out or never was', async () => {
    const cases = [
      { words: ['exec', '-t', 'box', '-c', 'kill -9 $$'], code: 137 },
      { words: ['exec', '-t', '--timeout', '0.2', 'box', '--', 'sleep', '60'], code: 124 },
      { words: ['exec', '-t', 'box', 'no-such-program'], code: 127 },
      { words: ['exec', '-t', 'nobody', 'sh'], code: 125 },
    ];
    for (const { words, code } of cases) {
      await using terminal = open(words);
      assert.deepEqual(await terminal.end(), { status: code * 256, restored: true }, words.join(' '));
    }
  });

  it('puts the terminal back when squash is killed, even with SIGKILL', async () => {
    for (const signal of ['SIGKILL', 'SIGABRT', 'SIGSEGV'] as const) {
      // The user's shell stays, as it does in life: it is the terminal's session leader.
      const call = [...cliCommand, 'exec', '-t', 'box', '-c', "'echo started; exec sleep 700'"].join(' ');
      await using terminal = new Terminal(
        ['/bin/sh', '-c', `${call}; echo back; until stty -a | grep -q ' echo '; do sleep 0.05; done`],
        {
          rows: 24,
          columns: 80,
          env: cliEnvironment(daemon),
        },
      );
      await terminal.see(/started/);
      const victim = processes().find(
        (each) => each.command.includes('exec -t box -c') && each.command.startsWith(process.execPath),
      );
      assert.ok(victim);
      process.kill(victim.pid, signal);
      await terminal.see(/back/);
      assert.equal((await terminal.end()).restored, true, signal);
    }
  });

  it('hangs the command up when the terminal goes', async () => {
    await using terminal = open([
      'exec',
      '-t',
      'box',
      '-c',
      "trap 'echo > /tmp/gone; exit' HUP; echo started; while :; do sleep 0.1; done",
    ]);
    await terminal.see(/started/);
    terminal.hangUp();
    await terminal.end();
    await waitFor(
      'the command to be hung up',
      async () => (await squash(daemon, ['exec', 'box', 'test', '-e', '/tmp/gone'])).code === 0,
    );
  });

  it('puts the terminal back when the daemon dies', async () => {
    await using terminal = shell();
    await terminal.see(prompt);
    await daemon.kill();
    assert.deepEqual(await terminal.end(), { status: 125 * 256, restored: true });
    await daemon.start();
  });

  it('can be stopped from outside and continued, with the terminal in order meanwhile', async () => {
    const call = [...cliCommand, 'exec', '-t', '-e', "'PS1=ready> '", 'box', 'sh'].join(' ');
    await using terminal = new Terminal(['bash', '--norc', '--noediting', '-im'], {
      rows: 24,
      columns: 80,
      env: { ...cliEnvironment(daemon) },
    });
    await terminal.see(/bash[^ ]* $/);
    terminal.type(`${call}\r`);
    await terminal.see(prompt);
    const own = processes().find(
      (each) => each.command.includes('exec -t -e PS1=ready>') && each.command.startsWith(process.execPath),
    );
    assert.ok(own);
    process.kill(own.pid, 'SIGTSTP');
    await terminal.see(/Stopped.*bash[^ ]* $/s);
    terminal.type('stty -a | tr ";" "\\n" | grep -c "[^-]icanon"\r');
    await terminal.see(/\r\n1\r\n/);
    terminal.type('fg\r');
    terminal.type('\r');
    await terminal.see(prompt);
    terminal.type('exit 3\r');
    await terminal.see(/bash[^ ]* $/);
    terminal.type('echo code $?; exit\r');
    await terminal.see(/code 3\r\n/);
    await terminal.end();
  });

  it('stops with its command at Ctrl-Z, as a program of the shell does, and goes on with fg', async () => {
    await using terminal = new Terminal(['bash', '--norc', '--noediting', '-im'], {
      rows: 24,
      columns: 80,
      env: cliEnvironment(daemon),
    });
    const exec = (script: string) => [...cliCommand, 'exec', '-t', 'box', '-c', `'${script}'`].join(' ');
    await terminal.see(/bash[^ ]* $/);
    terminal.type(`${exec('echo be""gun; cat; stty size; exit 4')}\r`);
    await terminal.see(/begun\r\n/);
    terminal.type('one\r');
    await terminal.see(/one\r\none\r\n/);
    terminal.type('\u001a');
    await terminal.see(/Stopped[^]*bash[^ ]* $/);
    terminal.type('stty -a | tr ";" "\\n" | grep -c "[^-]icanon"\r');
    await terminal.see(/\r\n1\r\n[^]*bash[^ ]* $/);
    assert.match(await squashOk(daemon, ['exec', 'box', 'ps', '-o', 'stat,args']), /^TN? +cat$/m);
    terminal.resize(50, 132);
    // In the background it has no terminal: it stops again.
    terminal.type('bg\r');
    await terminal.see(/&\r\n[^]*bash[^ ]* $/);
    await waitFor('it to stop again', async () => {
      terminal.type('jobs\r');
      await terminal.see(/bash[^ ]* $/);
      return /Stopped/.test(terminal.screen);
    });
    terminal.type('fg\r');
    await terminal.see(/exec -t box[^\n]*\r\n/);
    terminal.type('two\r');
    await terminal.see(/two\r\n(?:\^Z)?two\r\n/);
    terminal.type('\u0004');
    await terminal.see(/50 132\r\n[^]*bash[^ ]* $/);
    terminal.type('echo code $?\r');
    await terminal.see(/code 4\r\n[^]*bash[^ ]* $/);
    // A program that takes the key itself, puts its terminal in order and stops itself, as editors do.
    terminal.type(
      `${exec('stty raw -echo; echo ra""w; head -c 1 >/dev/null; stty sane; echo by""e; kill -TSTP 0; echo ba""ck')}\r`,
    );
    await terminal.see(/raw\n/);
    terminal.type('\u001a');
    await terminal.see(/bye\r\n[^]*Stopped[^]*bash[^ ]* $/);
    terminal.type('fg\r');
    await terminal.see(/back\r\n[^]*bash[^ ]* $/);
    terminal.type('exit\r');
    assert.equal((await terminal.end()).status, 0);
  });

  it('goes on at Ctrl-Z where no shell could continue it', async () => {
    await using terminal = open(['exec', '-t', 'box', '-c', 'echo begun; exec cat']);
    await terminal.see(/begun\r\n/);
    terminal.type('\u001aone\r');
    await terminal.see(/one\r\n(?:\^Z)?one\r\n/);
    terminal.type('\u0004');
    assert.deepEqual(await terminal.end(), { status: 0, restored: true });
  });

  it('shell opens one where there is a terminal, and reads a script where there is none', async () => {
    await using terminal = open(['shell', '-e', 'PS1=ready> ', 'box']);
    await terminal.see(prompt);
    terminal.type('echo $((6*7)); exit\r');
    await terminal.see(/\r\n42\r\n/);
    assert.equal((await terminal.end()).status, 0);
    const script = await squash(daemon, ['shell', 'box'], { input: 'echo from-script; exit 9\n' });
    assert.deepEqual([script.code, script.stdout.toString()], [9, 'from-script\n']);
  });

  it('without a terminal of ours gives one of 24 by 80, and types the end of input', async () => {
    const end = await squash(daemon, ['exec', '-t', 'box', '-c', 'stty -echo; stty size; cat'], {
      input: 'typed\n',
    });
    assert.equal(end.code, 0, end.stderr);
    assert.match(end.stdout.toString(), /24 80\r\n(.*\r\n)*typed\r\n/);
  });

  it('rm --all asks on the terminal', async () => {
    await squashOk(daemon, ['create', 'victim', '--layers', '000-base-test']);
    await using no = open(['rm', '--all']);
    await no.see(/Destroy all 2 sandboxes.*\[y\/N\] $/);
    no.type('\r');
    assert.equal((await no.end()).status, 256);
    assert.equal(await squashOk(daemon, ['ls', '-q']), 'box\nvictim');
    await using yes = open(['rm', '--all']);
    await yes.see(/\[y\/N\] $/);
    yes.type('y\r');
    assert.equal((await yes.end()).status, 0);
    assert.equal(await squashOk(daemon, ['ls', '-q']), '');
  });
});
