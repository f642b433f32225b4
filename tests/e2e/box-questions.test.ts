/**
 * What a box asks, on the terminal on which it runs: told at once, put when its user wants it, and answered by him alone. The program in the
 * box writes on the same terminal, and he types for it.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { basename, join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { repository as project } from '../support/base-layer.ts';
import { BoxPlace } from '../support/box-place.ts';
import { cliCommand, cliEnvironment } from '../support/cli.ts';
import { processes } from '../support/leaks.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

const skip = spawnSync('python3', ['-c', 'import pty']).status === 0 ? false : 'python3 is not installed';

const showKey = '\u001d';
const keys = /\[y\] once {2}\[b\] for this box[^]*later: /;
const taken = '\u001b[?1049h';
const given = '\u001b[?1049l';

describe('questions of a box on its own terminal', { skip }, () => {
  const stack = new AsyncDisposableStack();
  let place: BoxPlace;
  let policy: string;
  let ports: readonly number[];
  /** How often somebody came through to each port. */
  const came = new Map<number, number>();

  before(async () => {
    place = new BoxPlace('box-questions');
    policy = join(place.scratch, 'policy.toml');
    ports = await Promise.all([listening(), listening(), listening()]);
  });

  beforeEach(() => {
    const asks = ports.map((port) => `"host.squash.internal:${port}"`);
    writeFileSync(
      policy,
      `version = 1\n[net]\nallow = ["none"]\nask = [${asks.join(', ')}]\nask_timeout_ms = 120000\n`,
    );
  });

  after(async () => {
    await place[Symbol.asyncDispose]();
    await stack.disposeAsync();
  });

  async function listening(): Promise<number> {
    const server = createServer((socket) => {
      const { port } = server.address() as AddressInfo;
      came.set(port, (came.get(port) ?? 0) + 1);
      socket.on('error', () => {}).end('through\n');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stack.defer(() => void server.close());
    return (server.address() as AddressInfo).port;
  }

  /** Says what it reads, connects where it is told to, and draws a screen of its own. */
  const program = [
    'stty -echo; echo ready',
    String.raw`trap 'printf "size:%s;" "$(stty size)"' WINCH`,
    'reach() { w=$(timeout 100 cat < /dev/tcp/host.squash.internal/$1); echo "end-$1:${w:-none}"; }',
    'while :; do read -r word more || continue; case $word in',
    '  go) reach $more 2>/dev/null & ;;',
    String.raw`  full) printf '\033[?1049h\033[?25l\033[?2004hfull' ;;`,
    String.raw`  flood) for n in $(seq 2000); do echo "line $n of a flood that is as long as this"; done; echo flooded ;;`,
    '  size) until [ "$(stty size)" = "$more" ]; do sleep 0.05; done; echo as-it-is ;;',
    String.raw`  fake) printf 'Box waits for good.example:443\n[y] once  [n] deny  [Enter] later: ' ;;`,
    '  exit) exit 3 ;;',
    '  *) echo "got:$word" ;;',
    'esac; done',
  ].join('\n');

  function open(command: readonly string[] = cliCommand): Terminal {
    const words = [...command, 'box', 'run', '--rm', '--policy', policy, '--', 'bash', '-c', program];
    return new Terminal(['sh', '-c', `cd ${place.repository} && exec "$@"`, 'sh', ...words], {
      rows: 30,
      columns: 120,
      env: { ...cliEnvironment(undefined), ...place.env, TERM: 'xterm-256color' },
    });
  }

  async function ended(terminal: Terminal): Promise<void> {
    terminal.type('exit\r');
    assert.deepEqual(await terminal.end(), { status: 3 * 256, restored: true });
  }

  /** Connects, and waits until that is told. */
  async function told(terminal: Terminal, port: number): Promise<void> {
    terminal.type(`go ${port}\r`);
    await terminal.see(
      new RegExp(`\\u0007\\r\\nsquash: Box \\S+ waits for host\\.squash\\.internal:${port}; Ctrl-\\] shows`),
    );
  }

  async function put(terminal: Terminal): Promise<void> {
    terminal.type(showKey);
    await terminal.see(keys);
  }

  it('are told, put by Ctrl-] alone, and answered by a key that is pressed then', async () => {
    const [one = 0, two = 0] = ports;
    await using terminal = open();
    await terminal.see(/ready/);
    // Where nothing waits the key is the program's.
    terminal.type(`${showKey}\r`);
    await terminal.see(/got:./);
    assert.ok(terminal.screen.includes(`got:${showKey}`));
    await told(terminal, one);
    for (const typed of ['y', 'b', 'p', 'yes']) {
      terminal.type(`${typed}\r`);
      await terminal.see(new RegExp(`got:${typed}`));
    }
    assert.equal(came.get(one), undefined);
    await put(terminal);
    assert.match(
      terminal.screen,
      new RegExp(
        `waits for host\\.squash\\.internal:${one}\r\n  asked by ask\\[0\\][^\r]*; refused in \\d+ s\r\n  for longer than once: allow host\\.squash\\.internal:${one}\r\n`,
      ),
    );
    assert.ok(terminal.screen.indexOf(taken) >= 0 && !terminal.screen.includes(given));
    terminal.type('y');
    const [shown] = await terminal.see(new RegExp(`allowed[^]*end-${one}:through`));
    assert.ok(shown.includes(given));
    assert.equal(came.get(one), 1);
    // The same again is asked again, and refused.
    await told(terminal, one);
    await put(terminal);
    terminal.type('n');
    await terminal.see(new RegExp(`denied[^]*end-${one}:none`));
    assert.equal(came.get(one), 1);
    // For this box: it is not asked again.
    await told(terminal, two);
    await put(terminal);
    terminal.type('b');
    await terminal.see(new RegExp(`allowed[^]*end-${two}:through`));
    terminal.type(`go ${two}\r`);
    await terminal.see(new RegExp(`end-${two}:through`));
    assert.doesNotMatch(terminal.screen, /waits for/);
    await ended(terminal);
    const why = await place.box('why', 'host', `host.squash.internal:${two}`);
    assert.doesNotMatch(why.stdout.toString(), /answers/);
  });

  it('are not answered by what is typed ahead, typed on or left, and wait on', async () => {
    const [one = 0] = ports;
    const before = came.get(one);
    await using terminal = open();
    await terminal.see(/ready/);
    await told(terminal, one);
    terminal.type(`${showKey}yyyy`);
    await terminal.see(/squash asks you/);
    for (let keystrokes = 0; keystrokes < 8; keystrokes++) {
      terminal.type('y');
      await sleep(100);
    }
    terminal.type('yes, please\r');
    await sleep(1_500);
    // What leaves it sends nothing of this to the program.
    terminal.type('\u0003');
    await terminal.see(/1049l/);
    terminal.type('word\r');
    await terminal.see(/got:word/);
    await put(terminal);
    terminal.type('\r');
    await terminal.see(/1049l/);
    assert.equal(came.get(one), before);
    await put(terminal);
    terminal.type('y');
    await terminal.see(new RegExp(`end-${one}:through`));
    await ended(terminal);
  });

  it('are put over a full screen, which the program draws anew, with all that it has written meanwhile', async () => {
    const [one = 0] = ports;
    await using terminal = open();
    await terminal.see(/ready/);
    terminal.type('full\r');
    await terminal.see(/full/);
    terminal.type(`go ${one}\r`);
    await terminal.see(/squash: a question waits/);
    assert.ok(terminal.screen.includes('\u0007\u001b[22;2t\u001b]2;squash'));
    assert.doesNotMatch(terminal.screen, /waits for/);
    terminal.type(`flood\r${showKey}`);
    await terminal.see(keys);
    const { screen } = terminal;
    await sleep(500);
    assert.equal(terminal.screen, screen);
    terminal.resize(31, 121);
    await waitFor('the question anew', () => terminal.screen.length > screen.length);
    assert.match(terminal.screen, /2J[^]*waits for[^]*2J[^]*waits for/);
    terminal.resize(30, 120);
    terminal.type('y');
    const [back] = await terminal.see(
      new RegExp(`\\u001b\\[<1u[^]*line 1 of[^]*line 2000 of[^]*flooded(?=[^]*end-${one}:through)[^]*`),
    );
    assert.ok(back.startsWith('\u001b[<1u\u001b[?25l\u001b[?2004h\u001b[H\u001b[2J'), back.slice(0, 200));
    assert.ok(!terminal.screen.includes(taken) && !terminal.screen.includes(given));
    // It hears of a size, although that is as it was when it last looked.
    terminal.type('\r');
    await terminal.see(/size:(?:29|30) 120;/);
    terminal.type('size 30 120\r');
    await terminal.see(/as-it-is/);
    await ended(terminal);
  });

  it('end where somebody else answers, come one after the other, and are of the project where that is said', async () => {
    const [, , one = 0] = ports;
    const [two = 0] = ports;
    await using terminal = open();
    await terminal.see(/ready/);
    await told(terminal, one);
    await told(terminal, two);
    await put(terminal);
    assert.match(
      terminal.screen,
      new RegExp(`1 more behind it[^]*waits for host\\.squash\\.internal:${one}`),
    );
    const waiting = JSON.parse(await place.printed('approve', '--json')) as { id: string; port: number }[];
    assert.deepEqual(
      waiting.map(({ port }) => port),
      [one, two],
    );
    await using other = new Terminal([...cliCommand, 'box', 'approve'], {
      rows: 30,
      columns: 150,
      env: { ...cliEnvironment(undefined), ...place.env },
    });
    await other.see(/later: /);
    terminal.type('');
    await sleep(400);
    other.type('n\n');
    await terminal.see(
      new RegExp(`it is over: denied[^]*waits for host\\.squash\\.internal:${two}[^]*later: `),
    );
    terminal.type('p');
    await terminal.see(new RegExp(`kept in \\S+answers\\.jsonc[^]*end-${two}:through`));
    await ended(terminal);
    const why = await place.box('why', 'host', `host.squash.internal:${two}`);
    assert.match(why.stdout.toString(), /allowed[^]*answers\.jsonc/);
  });

  it('are left where the job is stopped, and end with the program', async () => {
    const [, , one = 0] = ports;
    // Who connects goes on when the command has ended, and keeps the question.
    const asks = `(sleep 1; exec 3<>/dev/tcp/host.squash.internal/${one}; read -r -u 3) 2>/dev/null`;
    const shell = ['env', 'PS1=outer> ', 'bash', '--norc', '--noediting', '-im'];
    await using terminal = new Terminal(['sh', '-c', `cd ${place.repository} && exec "$@"`, 'sh', ...shell], {
      rows: 30,
      columns: 120,
      env: { ...cliEnvironment(undefined), ...place.env, TERM: 'xterm-256color' },
    });
    await terminal.see(/outer> $/);
    const call = (script: string): string =>
      runWords(script)
        .map((word) => `'${word}'`)
        .join(' ');
    terminal.type(`${call(`${asks} & echo be""gun; cat; exit 5`)}\r`);
    await terminal.see(/begun[^]*Ctrl-\] shows/);
    await put(terminal);
    terminal.type('\u001a');
    await terminal.see(/1049l/);
    terminal.type('\u001a');
    await terminal.see(/Stopped[^]*outer> $/);
    terminal.type('fg\r');
    await terminal.see(/box[^\n]*\r\n/);
    await put(terminal);
    terminal.type('\u0003');
    await terminal.see(/1049l/);
    terminal.type('\u0004');
    await terminal.see(/outer> $/);
    terminal.type('echo "code $?"\r');
    await terminal.see(/code 5\r\n[^]*outer> $/);
    // The program ends while the question is shown, and so nobody asks any more.
    terminal.type(`${call(`${asks} & sleep 4; echo la""st; exit 6`)}\r`);
    await terminal.see(/Ctrl-\] shows/);
    await put(terminal);
    await terminal.see(/it is over: withdrawn[^]*1049l[^]*last\r\n[^]*outer> $/);
    terminal.type('echo "code $?"\r');
    await terminal.see(/code 6\r\n[^]*outer> $/);
    // A program that stops itself takes the question with it no sooner than the user has left it.
    terminal.type(`${call(`${asks} & (sleep 4; kill -TSTP $$) & read -r line; echo "got:$line"`)}\r`);
    await terminal.see(/Ctrl-\] shows/);
    await put(terminal);
    await sleep(3_500);
    assert.doesNotMatch(terminal.screen, /Stopped|outer>/);
    terminal.type('\r');
    await terminal.see(/1049l[^]*Stopped[^]*outer> $/);
    terminal.type('fg\r');
    await terminal.see(/box[^\n]*\r\n/);
    terminal.type('more\r');
    await terminal.see(/got:more[^]*outer> $/);
    terminal.type('exit 0\r');
    assert.deepEqual(await terminal.end(), { status: 0, restored: true });
  });

  it('are allowed only where they are seen whole, and by nobody who answers what a box has drawn', async () => {
    const [one = 0] = ports;
    rmSync(join(place.scratch, 'state'), { recursive: true, force: true });
    const before = came.get(one);
    await using terminal = open();
    await terminal.see(/ready/);
    terminal.type('fake\r');
    await terminal.see(/later: /);
    await told(terminal, one);
    for (const typed of ['y', 'b', 'p']) {
      terminal.type(`${typed}\r`);
      await terminal.see(new RegExp(`got:${typed}`));
    }
    await put(terminal);
    terminal.resize(9, 40);
    await terminal.see(/It does not fit on this terminal[^]*\[n\] deny {2}\[Enter\] later: $/);
    for (const key of ['y', 'b', 'p']) {
      terminal.type(key);
      await sleep(1_000);
    }
    assert.equal(came.get(one), before);
    assert.equal(terminal.screen, '');
    terminal.resize(30, 120);
    await terminal.see(/\[p\] for all boxes over this repository/);
    terminal.type('n');
    await terminal.see(new RegExp(`denied[^]*end-${one}:none`));
    assert.equal(came.get(one), before);
    await ended(terminal);
  });

  function programOf(pid: number): string | undefined {
    try {
      return basename(readlinkSync(`/proc/${pid}/exe`));
    } catch {
      // It has just ended, or is somebody else's.
      return undefined;
    }
  }

  it('are put by a command line that stood by', async () => {
    const [one = 0] = ports;
    const squash = [join(project, 'squash')];
    const env = { ...cliEnvironment(undefined), ...place.env };
    const words = ['box', 'run', '--rm', '--', 'true'];
    execFileSync(squash[0] ?? '', words, { cwd: place.repository, env });
    await waitFor('a command line that stands by', () => existsSync(join(place.dataDir, 'standby.sock')));
    await using terminal = open(squash);
    await terminal.see(/ready/);
    assert.ok(
      processes().some(({ pid, command }) => command.includes(policy) && programOf(pid) === 'squash-call'),
    );
    await told(terminal, one);
    await put(terminal);
    terminal.type('y');
    await terminal.see(new RegExp(`end-${one}:through`));
    await ended(terminal);
  });

  it('are told where the command has no terminal, with what answers them in another one', async () => {
    const [, one = 0] = ports;
    const script = `exec 3<>/dev/tcp/host.squash.internal/${one}; read -r -t 3 word <&3; echo "end:$word" >&2`;
    const note =
      /squash: Box (\S+) waits for host\.squash\.internal:\d+; answer in another terminal: squash box approve \1/;
    await using silent = new Terminal(
      ['sh', '-c', `cd ${place.repository} && "$@" > out`, 'sh', ...runWords(script)],
      { rows: 30, columns: 120, env: { ...cliEnvironment(undefined), ...place.env } },
    );
    await silent.see(note);
    silent.type('y\n');
    await silent.see(/end:\r?\n/);
    await silent.end();
  });

  const runWords = (script: string): readonly string[] => [
    ...cliCommand,
    'box',
    'run',
    '--rm',
    '--policy',
    policy,
    '--',
    'bash',
    '-c',
    script,
  ];
});
