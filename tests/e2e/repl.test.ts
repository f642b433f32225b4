/** `squash repl` with real kernels: by a pipe, and typed on a real terminal. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import type { Execution } from '@squash/contract/context';
import { type CliOptions, cliCommand, cliEnvironment, squash, squashOk } from '../support/cli.ts';
import { interpreterModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { Terminal } from '../support/terminal.ts';

let daemon: TestDaemon;
let state: string;

before(async () => {
  daemon = await TestDaemon.start({ modules: await interpreterModules() });
  state = await mkdtemp(join(tmpdir(), 'squash-repl-'));
  await squashOk(daemon, ['create', 'box', '--layers', '000-base-debian,120-interpreter']);
});

after(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(state, { recursive: true });
});

const piped = (words: readonly string[], input: string, options: CliOptions = {}) =>
  squash(daemon, ['repl', ...words], { ...options, input });

const open = (...words: readonly string[]) =>
  new Terminal([...cliCommand, 'repl', ...words], {
    rows: 24,
    columns: 100,
    env: { ...cliEnvironment(daemon), XDG_STATE_HOME: state },
  });

/** A line, behind what the line editor says to the terminal. */
const said = (text: string) => new RegExp(`(?:\\n|\\[\\?2004l)${text}\\r\\n`);

const sandboxes = async () => (await squashOk(daemon, ['ls', '--quiet'])).split('\n');

test('repl runs a pipe as one cell in a sandbox of its own, and leaves none', async () => {
  const code =
    'import os, sys\nfor i in range(2):\n\n    print(i, os.getcwd())\nprint("err", file=sys.stderr)\n6 * 7\n';
  const end = await piped(
    ['--file', join(import.meta.dirname, '../../LICENSE')],
    `open("LICENSE").close()\n${code}`,
  );
  // Where the host can't hold limits it says so of each new sandbox.
  const stderr = end.stderr.replaceAll(/^squash: warning: .*\n/gm, '');
  assert.deepEqual([end.code, end.stdout.toString(), stderr], [0, '0 /root\n1 /root\n42\n', 'err\n']);
  assert.deepEqual(await sandboxes(), ['box']);
  assert.deepEqual(
    (
      await Promise.all(
        [['--new'], ['--context', 'x'], ['box', '--keep'], ['--language', 'perl']].map((words) =>
          piped(words, '1'),
        ),
      )
    ).map(({ code: failed }) => failed),
    [2, 2, 2, 2],
  );
});

test('repl keeps a context’s state in a sandbox that is named, and tells failures by its exit code', async () => {
  assert.equal((await piped(['box'], 'x = 20')).code, 0);
  assert.equal((await piped(['box'], 'print("a", end=""); x + 1')).stdout.toString(), 'a\n21\n');
  const failed = await piped(['box'], 'x / 0');
  assert.deepEqual([failed.code, failed.stdout.length], [1, 0]);
  assert.match(failed.stderr, /Traceback[^]*^ZeroDivisionError: division by zero\n$/m);
  const late = await piped(['box', '--timeout', '0.5'], 'import time; time.sleep(60)');
  assert.deepEqual([late.code, /KeyboardInterrupt[^]*ran out of time/.test(late.stderr)], [124, true]);
  assert.equal((await piped(['box', '--new'], '"x" in globals()')).stdout.toString(), 'False\n');
  const script = ['box', '--language', 'typescript', '--context', 'script'];
  assert.equal(
    (await piped(script, 'const n: number = 6; html`<b>${n}</b>`')).stdout.toString(),
    '[text/html, 8 B]\n',
  );
  assert.equal((await piped(['box', '--context', 'script'], 'n * 7')).stdout.toString(), '42\n');
  assert.match(
    (await piped(['box', '--context=script', '--language=python'], '1')).stderr,
    /is of typescript/,
  );
  const events = (await piped(['box', '--json'], 'print("\u009b2J")\n1')).stdout
    .toString()
    .trim()
    .split('\n');
  assert.match(events[1] ?? '', /\\u009b2J/);
  assert.deepEqual(
    events.map((line) => (JSON.parse(line) as { readonly type: string }).type),
    ['cell', 'stdout', 'result', 'end'],
  );
  const list = await squashOk(daemon, ['repl', 'box', '--list']);
  assert.match(list, /default-python +python +idle[^]*script +typescript/);
  assert.equal(
    await squashOk(daemon, ['__complete', '--', 'repl', 'box', '--context', 'sc']),
    'script\ttypescript',
  );
});

test('repl on a terminal takes cells of several lines, interrupts by Ctrl-C, and saves pictures', async () => {
  await using terminal = open('box');
  const text = () => stripVTControlCharacters(terminal.screen);
  await terminal.see(/>>> (?:\W+\d*[A-Za-z])*$/);
  terminal.type('def f(n):\rreturn n + 1\u0001    \r\rf(41)\r');
  await terminal.see(said('42'));
  terminal.type('print("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07", end="")\r');
  await terminal.see(/\W\[31mred\W\[0m \\u\{1b\}\]0;title\\u\{7\}\W\[0m\r\n/);
  terminal.type('import time\rtry:\r    print("be" + "gun"); time.sleep(60)\rfinally:\r    kept = 5\r\r');
  await terminal.see(said('begun'));
  terminal.type('\u0003');
  await terminal.see(/KeyboardInterrupt[^]*>>> /);
  terminal.type('never(\u0003kept * 2\r');
  await terminal.see(said('10'));
  // As terminals give what is pasted: nothing runs before it is sent.
  terminal.type('\u001b[200~def g():\n\n    return "past" + "ed"\ng()\u001b[201~\r');
  await terminal.see(/'pasted'/);
  const plot = 'import base64, IPython.display as d; d.Image(base64.b64decode("';
  terminal.type(
    `${plot}iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="))\r`,
  );
  await terminal.see(/\[image\/png, \d+ B; \.save plot\.png\]/);
  terminal.type(`.save ${join(state, 'plot.png')}\r`);
  await terminal.see(/plot\.png: image\/png/);
  assert.equal((await readFile(join(state, 'plot.png'))).subarray(1, 4).toString(), 'PNG');
  terminal.type(`.save ${join(state, 'missing/plot.png')}\r.nothing\r.restart\rkept\r`);
  // Before the prompt the terminal is its usual self, where Ctrl-D is none of the reader's keys.
  await terminal.see(/file_unwritable[^]*try: \.help[^]*NameError[^]*>>> /);
  terminal.type('\u0004');
  assert.deepEqual(await terminal.end(), { status: 0, restored: true }, text());
  const history = await readFile(join(state, 'squash/repl-python'), 'utf8');
  assert.match(history, /^f\(41\)\n[^]*^\.restart\nkept\n$/m);
  const runs = (await daemon.call('POST', '/v1/sandboxes/box/contexts/default-python/cells', {
    code: '1',
  })) as Execution;
  assert.equal(runs.status, 'ok');
});

test('repl leaves a cell alone that waits behind another’s, where nobody waits for it', async () => {
  const busy = daemon.call('POST', '/v1/sandboxes/box/contexts/default-python/cells', {
    code: 'import os, time\nwhile not os.path.exists("/tmp/go"): time.sleep(0.01)\n"other"',
  });
  await using terminal = open('box');
  await terminal.see(/>>> /);
  terminal.type('late = 1\r');
  await terminal.see(/\W\[\?2004l$/);
  terminal.type('\u0003');
  await terminal.see(/Ctrl-C again/);
  terminal.type('\u0003');
  await terminal.see(/did not wait/);
  await daemon.call('POST', '/v1/sandboxes/box/exec', { argv: ['touch', '/tmp/go'] });
  const { status, results } = (await busy) as Execution;
  assert.deepEqual([status, results[0]?.text], ['ok', "'other'"]);
  terminal.type('.remove\r');
  assert.equal((await terminal.end()).status, 0);
  assert.doesNotMatch(await squashOk(daemon, ['repl', 'box', '--list']), /default-python/);
});

test('repl removes its own sandbox at Ctrl-D, when the terminal hangs up, and when it is told to end', async () => {
  for (const leave of ['\u0004', 'hang up', 'end']) {
    await using terminal = open('--language', 'javascript');
    await terminal.see(/> (?:\W+\d*[A-Za-z])*$/);
    terminal.type('const f = () => {\rreturn `a\r${1 + 1}`\r}\rf()\r');
    await terminal.see(/'a\\n2'\r\n/);
    assert.equal((await sandboxes()).length, 2);
    if (leave === 'hang up') terminal.hangUp();
    else if (leave === 'end') terminal.type('.exit\r');
    else terminal.type(leave);
    const { status } = await terminal.end();
    assert.deepEqual([leave, status], [leave, leave === 'hang up' ? (128 + 1) * 256 : 0]);
    assert.deepEqual(await sandboxes(), ['box']);
  }
});

test('repl says what makes the layer where there is none', async () => {
  await using bare = await TestDaemon.start();
  const { code, stderr } = await squash(bare, ['repl'], { input: '1' });
  assert.deepEqual(
    [code, /squash module build interpreter.*\(interpreter_missing\)/.test(stderr)],
    [1, true],
    stderr,
  );
});
