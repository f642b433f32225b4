/** Contexts with the layer that users build: real kernels of both kinds, over HTTP. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempDisposable, readFile, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { type CellEvent, cellEventSchema, type Context, type Execution } from '@squash/contract/context';
import { limits } from '@squash/contract/limits';
import { Squash } from '@squash/sdk';
import { ApiClient } from '../support/api-client.ts';
import { repository } from '../support/base-layer.ts';
import { cliCommand, cliEnvironment, endOf } from '../support/cli.ts';
import { interpreterModules } from '../support/clients-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { checkSession, isSingleId, noApt, sessionSettings } from '../support/data-session.ts';
import { waitFor } from '../support/wait.ts';

const box = '/v1/sandboxes/box';
const layers = ['000-base-debian', '120-interpreter'];
let daemon: TestDaemon;
let api: ApiClient;

before(async () => {
  daemon = await TestDaemon.start({ modules: await interpreterModules(), env: await sessionSettings() });
  api = new ApiClient(daemon);
  await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'box', layers });
  for (const [context, language] of Object.entries({ py: 'python', ts: 'typescript' })) {
    await daemon.call('POST', `${box}/contexts`, { context, language });
  }
});

after(() => daemon[Symbol.asyncDispose]());

async function run(context: string, code: string, more: object = {}): Promise<Execution> {
  const answer = await api.post(`${box}/contexts/${context}/cells`, { code, ...more });
  assert.equal(answer.status, 200, answer.text);
  return answer.json as Execution;
}

async function state(context: string): Promise<Context> {
  return (await daemon.call('GET', `${box}/contexts/${context}`)) as Context;
}

async function* follow(path: string, init: RequestInit = {}): AsyncGenerator<CellEvent, void, void> {
  const headers = { accept: 'application/x-ndjson', 'content-type': 'application/json' };
  const response = await fetch(`${daemon.url}${path}`, { ...init, headers });
  assert.equal(response.status, 200, path);
  assert.ok(response.body !== null);
  let text = '';
  const decoder = new TextDecoder();
  for await (const piece of response.body) {
    text += decoder.decode(piece, { stream: true });
    const lines = text.split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) yield cellEventSchema.parse(JSON.parse(line));
  }
}

/** Begins a cell and leaves: it goes on. */
async function begin(context: string, code: string): Promise<number> {
  const body = JSON.stringify({ code });
  for await (const event of follow(`${box}/contexts/${context}/cells`, { method: 'POST', body })) {
    if (event.type === 'cell') return event.cell;
  }
  throw new Error('the cell has not begun');
}

async function shell(line: string): Promise<string> {
  return (await daemon.call('POST', `${box}/exec`, { shell: line })).stdout;
}

const signature = { png: 'iVBORw0KGgo' };
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=';

test('a sandbox has as many contexts as it may, however many are asked for at once', async () => {
  await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'many', layers: [layers[0]] });
  // It makes no difference what keeps a context.
  const put =
    'cd /usr/lib && mkdir -p squash/interpreter && cd squash/interpreter && printf "#!/bin/sh\\nexec cat" >bridge.py';
  await daemon.call('POST', '/v1/sandboxes/many/exec', { shell: `${put} && chmod 755 bridge.py` });
  const asked = Array.from({ length: limits.contextsMax + 8 }, (_, i) =>
    api.post('/v1/sandboxes/many/contexts', { context: `c${i}`, language: 'python' }),
  );
  const codes = (await Promise.all(asked)).map(
    ({ json }) => (json as { readonly code?: string }).code ?? 'made',
  );
  assert.equal(codes.filter((code) => code === 'made').length, limits.contextsMax);
  assert.equal(codes.filter((code) => code === 'context_limit').length, 8);
});

test('Python keeps state, and answers values, output, data frames and plots', async () => {
  const first = await run('py', 'import sys\nx = 20\nprint("out")\nprint("err", file=sys.stderr)\nx + 1');
  assert.deepEqual([first.status, first.stdout, first.stderr], ['ok', 'out\n', 'err\n']);
  assert.deepEqual(first.results, [{ is_main: true, text: '21' }]);
  assert.deepEqual(first.cut, { stdout_bytes: 0, stderr_bytes: 0, results: 0 });
  const frame = await run('py', 'import pandas as pd\npd.DataFrame({"a": [x, 2], "b": ["u", None]})');
  const [shown] = frame.results;
  assert.deepEqual(shown?.json, {
    columns: ['a', 'b'],
    index: [0, 1],
    data: [
      [20, 'u'],
      [2, null],
    ],
    rows: 2,
  });
  assert.match(shown?.html ?? '', /<table/);
  assert.match(shown?.text ?? '', /20 +u/);
  const plot = await run(
    'py',
    `import matplotlib.pyplot as plt
plt.plot([1, 3, 2]); plt.savefig("/tmp/plot.pdf"); plt.show()
%config InlineBackend.figure_formats = ["svg"]
plt.plot([1, 2]); plt.show()
from IPython.display import HTML, Markdown, JSON
display(HTML("<b>x</b>"), Markdown("*x*"), JSON({"a": [1]}))`,
  );
  assert.equal(plot.error, null);
  assert.ok(plot.results[0]?.png?.startsWith(signature.png));
  assert.match(plot.results[1]?.svg ?? '', /<svg/);
  const [html, markdown, data] = plot.results.slice(2);
  assert.deepEqual([html?.html, markdown?.markdown, data?.json], ['<b>x</b>', '*x*', { a: [1] }]);
});

test('TypeScript keeps state, with imports, top-level await and rich results', async () => {
  const first = await run(
    'ts',
    'import os from "node:os";\nconst n: number = 20; console.log(os.EOL === "\\n"); n + 1',
  );
  assert.deepEqual(
    [first.status, first.stdout, first.results],
    ['ok', 'true\n', [{ is_main: true, text: '21' }]],
  );
  const again = await run('ts', 'const n = await Promise.resolve({ a: [1, 2] }); n');
  assert.deepEqual(again.results[0], { is_main: true, text: '{ a: [ 1, 2 ] }', json: { a: [1, 2] } });
  const rich = await run('ts', 'enum E { A, B }; display(html`<b>${E.B}</b>`); svg`<svg/>`');
  assert.deepEqual(rich.results, [
    { is_main: false, html: '<b>1</b>' },
    { is_main: true, svg: '<svg/>' },
  ]);
  const loaded = await run('ts', '[(await import("node:os")).EOL, await (await Promise.all([1]))[0]]');
  assert.deepEqual(loaded.results[0]?.json, ['\n', 1]);
  const child = await run(
    'ts',
    'require("child_process").execSync("echo child", { stdio: "inherit" }); null',
  );
  assert.equal(child.stdout, 'child\n');
});

test('an error is a result with its traceback, in both languages', async () => {
  const python = await run('py', 'def f(n):\n    return 1 / n\nf(0)');
  assert.deepEqual([python.status, python.error?.name], ['error', 'ZeroDivisionError']);
  assert.match(python.error?.traceback ?? '', /return 1 \/ n[^]*division by zero/);
  const script = await run('ts', 'function f(n: number) {\n  throw new TypeError("bad " + n);\n}\nf(3)');
  assert.deepEqual([script.status, script.error?.message], ['error', 'bad 3']);
  assert.match(script.error?.traceback ?? '', /at f \(<anonymous>:2:9\)/);
  assert.equal((await run('ts', 'const = 1')).error?.name, 'SyntaxError');
  assert.match((await run('py', 'input()')).error?.message ?? '', /does not support input/);
});

test('interrupts and time limits end a cell and leave its state', async () => {
  const loops = { py: 'while True: pass', ts: 'let i = 0; await null; for (;;) i += 1' };
  for (const [context, code] of Object.entries(loops)) {
    const path = `${box}/contexts/${context}/cells`;
    const events: CellEvent[] = [];
    for await (const event of follow(path, { method: 'POST', body: JSON.stringify({ code }) })) {
      events.push(event);
      if (event.type !== 'cell') continue;
      assert.deepEqual([(await state(context)).state, (await state(context)).cell], ['busy', event.cell]);
      assert.equal((await api.post(`${box}/contexts/${context}/interrupt`, {})).status, 204);
    }
    const end = events.at(-1);
    assert.equal(end?.type === 'end' && end.status, 'interrupted', context);
    const late = await run(
      context,
      context === 'py' ? 'import time; time.sleep(60)' : 'await new Promise(() => {})',
      {
        timeout_ms: 100,
      },
    );
    assert.equal(late.status, 'timeout', context);
  }
  assert.equal((await run('py', 'x')).results[0]?.text, '20');
  assert.equal((await run('ts', 'n.a[1]')).results[0]?.text, '2');
});

test('several contexts run at once, each with names of its own, and cells of one wait for each other', async () => {
  const [cells] = await Promise.all([
    Promise.all(
      ['1', '2', '3'].map((n) =>
        run('py', `import time; time.sleep(0.1); seen = globals().get("seen", "") + "${n}"; seen`),
      ),
    ),
    run('ts', 'typeof seen').then(({ results }) => assert.equal(results[0]?.text, "'undefined'")),
    // Made when it is first asked for, by whoever is first.
    Promise.all([
      run('default-javascript', 'globalThis.a = 1'),
      run('default-javascript', 'globalThis.b = 2'),
    ]),
  ]);
  assert.equal(Math.max(...cells.map(({ results }) => results[0]?.text?.length ?? 0)), 5);
  const { items } = (await daemon.call('GET', `${box}/contexts`)) as { readonly items: readonly Context[] };
  assert.deepEqual(
    items.map(({ context, state: now }) => [context, now]),
    [
      ['py', 'idle'],
      ['ts', 'idle'],
      ['default-javascript', 'idle'],
    ],
  );
  assert.equal((await run('default-javascript', 'a + b')).results[0]?.text, '3');
  await daemon.call('DELETE', `${box}/contexts/default-javascript`);
});

test('state, and a cell that runs, outlive a daemon that is killed', async () => {
  const wait = 'import os, time\nprint("before")\nwhile not os.path.exists("/tmp/go"): time.sleep(0.01)\n';
  const cell = await begin('py', `${wait}print("behind")\nsurvived = 1`);
  const path = `${box}/contexts/py/cells/${cell}/output`;
  const seen: CellEvent[] = [];
  for await (const event of follow(path)) {
    seen.push(event);
    if (event.type === 'stdout') break;
  }
  await daemon.kill();
  await daemon.start();
  const last = seen.at(-1);
  assert.ok(last !== undefined && 'seq' in last);
  assert.equal((await state('py')).state, 'busy');
  await daemon.call('POST', `${box}/exec`, { argv: ['touch', '/tmp/go'] });
  for await (const event of follow(`${path}?after=${last.seq}`)) seen.push(event);
  const text = seen.map((event) => (event.type === 'stdout' ? event.text : '')).join('');
  assert.equal(text, 'before\nbehind\n');
  assert.equal(seen.at(-1)?.type, 'end');
  assert.equal((await run('py', 'x + survived')).results[0]?.text, '21');
  const unknown = await api.get(`${box}/contexts/py/cells/${cell + 1}/output`);
  assert.deepEqual([unknown.status, unknown.json.code], [404, 'cell_not_found']);
});

test('floods are cut and say so', async () => {
  const flood = async (ms: number): ReturnType<typeof run> =>
    await run('py', 'while True: print("x" * 1000)', { timeout_ms: ms });
  let forever = await flood(300);
  // On a busy machine its time may be over before it has begun.
  for (let ms = 600; forever.stdout === '' && ms < 5_000; ms *= 2) forever = await flood(ms);
  assert.equal(forever.status, 'timeout');
  assert.ok(forever.stdout.length > 0 && forever.stdout.length <= 1_048_576, `${forever.stdout.length}`);
  // How much comes in a given time is the machine's business; of so much, the rest is always cut.
  const long = await run('py', 'for _ in range(3000): print("x" * 1000)');
  assert.ok(long.stdout.length > 100_000 && long.stdout.length <= 1_048_576, `${long.stdout.length}`);
  assert.ok(long.cut.stdout_bytes > 0);
  const picture = 'from IPython.display import Image, display\n';
  const large = await run(
    'py',
    `${picture}display(Image(data=b"\\x89PNG" + bytes(2_000_000), format="png"))`,
  );
  assert.ok((large.results[0]?.png?.length ?? 0) > 2_600_000);
  const huge = await run('py', `${picture}display(Image(data=b"\\x89PNG" + bytes(4_000_000), format="png"))`);
  assert.deepEqual([huge.results[0]?.png, huge.results[0]?.omitted?.[0]?.format], [undefined, 'png']);
  assert.equal(huge.cut.results, 1);
  const many = await run('ts', 'for (let i = 0; i < 1000; i++) display(i); console.log("y".repeat(2e6))');
  assert.deepEqual([many.results.length, many.cut.results], [256, 744]);
  assert.ok(many.cut.stdout_bytes > 0);
  // What writes past the bridge, where only the daemon's bounds are left, ends nothing.
  const bridge = (await state('ts')).process;
  const { pid } = await daemon.call('GET', `${box}/processes/${bridge}`);
  await run(
    'py',
    `f = open("/proc/${pid}/fd/1", "wb")\nf.write(b"x" * 20_000_000 + b"\\n{}\\n[]\\n"); f.close()`,
  );
  assert.equal((await run('ts', '1')).results[0]?.text, '1');
});

test('values without number cost the daemon nothing: the bridge leaves them out, and a line that holds them all the same is passed over', async () => {
  const show = 'from IPython.display import JSON, display\n';
  const some = await run('py', `${show}display(JSON({"a": [[]] * 30_000}))`);
  assert.equal((some.results[0]?.json as { a: unknown[] } | undefined)?.a.length, 30_000);
  const many = await run('py', `${show}display(JSON({"a": [[]] * 50_000}))`);
  assert.deepEqual([many.results[0]?.json, many.results[0]?.omitted?.[0]?.format], [undefined, 'json']);
  // Commas of a text are none of values.
  assert.equal((await run('py', '"," * 200_000')).results[0]?.text?.length, 200_002);
  const bridge = (await state('py')).process;
  const { pid } = await daemon.call('GET', `${box}/processes/${bridge}`);
  // Once the bridge has told of the cell: its line and the forged ones are not to be in each other.
  const cell = await begin(
    'py',
    `import os, time
while not os.path.exists("/tmp/forge"): time.sleep(0.01)
f = open("/proc/${pid}/fd/1", "wb")
for json in [b"[" + b"[]," * 60_000 + b"0]", b"[" + b"[]," * 2_000_000 + b"0]"]:
    f.write(b'\\n{"type":"result","is_main":true,"json":' + json + b"}\\n")
f.close()`,
  );
  await shell('touch /tmp/forge');
  const forged: unknown[] = [];
  for await (const event of follow(`${box}/contexts/py/cells/${cell}/output`)) {
    if (event.type === 'result') forged.push((event.json as unknown[]).length);
  }
  assert.deepEqual(forged, [60_001]);
});

test('a kernel that dies says so, and restarts with nothing', async () => {
  const deaths = { py: 'import os; os._exit(3)', ts: 'process.exit(3)' };
  for (const [context, code] of Object.entries(deaths)) {
    const dead = await run(context, code);
    assert.deepEqual(
      [dead.status, dead.error?.message],
      ['kernel_died', 'the kernel ended with exit code 3'],
    );
    assert.equal((await state(context)).state, 'dead');
    const refused = await api.post(`${box}/contexts/${context}/cells`, { code: '1' });
    assert.deepEqual([refused.status, refused.json.code], [409, 'kernel_died']);
    const restarted = await api.post(`${box}/contexts/${context}/restart`, {});
    assert.deepEqual([restarted.status, restarted.json.state], [200, 'starting']);
  }
  assert.equal((await run('py', '"x" in globals()')).results[0]?.text, 'False');
  const busy = await begin('ts', 'for (;;);');
  const twice = [1, 2].map(() => api.post(`${box}/contexts/ts/restart`, {}));
  for (const { status } of await Promise.all(twice)) assert.equal(status, 200);
  for await (const event of follow(`${box}/contexts/ts/cells/${busy}/output`)) {
    if (event.type === 'end') assert.equal(event.status, 'interrupted');
  }
  assert.equal((await run('ts', 'typeof n')).results[0]?.text, "'undefined'");
});

test('cells run as the user of their context, and nobody else can speak to its kernel', async (t) => {
  if (await isSingleId(daemon)) return t.skip('single-id mode: there is no other user');
  await daemon.call('POST', `${box}/contexts`, { context: 'nobody', user: 65_534, cwd: '/tmp' });
  const { results } = await run('nobody', 'import os; (os.getuid(), os.getcwd())');
  assert.equal(results[0]?.text, "(65534, '/tmp')");
  // Where its connection file and its sockets are: of three kernels' only its own.
  const code = 'import glob; [os.access(d, os.X_OK) for d in glob.glob("/tmp/squash-context-*")].count(True)';
  assert.deepEqual(
    [(await run('nobody', code)).results[0]?.text, (await run('py', `import os; ${code}`)).results[0]?.text],
    ['1', '3'],
  );
  await daemon.call('DELETE', `${box}/contexts/nobody`);
  assert.equal((await state('nobody')).state, 'ended');
});

test('a cell that stops its bridge gets no more time than others, and the context ends with it', async () => {
  const code = 'import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)';
  const stopped = async (context: string) => {
    await daemon.call('POST', `${box}/contexts`, { context, language: 'python' });
    await waitFor('the kernel', async () => (await state(context)).state === 'idle');
    const { process } = await state(context);
    const { pid } = await daemon.call('GET', `${box}/processes/${process}`);
    const running = api.post(`${box}/contexts/${context}/cells`, { code, timeout_ms: 1_000 });
    await waitFor('the bridge to stand still', async () => / T /.test(await shell(`cat /proc/${pid}/stat`)));
    return { running };
  };
  const [late, restarted] = [await stopped('late'), await stopped('restarted')];
  const restart = await api.post(`${box}/contexts/restarted/restart`, {});
  const answers = [restart, await restarted.running, await late.running];
  assert.deepEqual(
    answers.map(({ json }) => (json as { readonly code?: string }).code),
    ['context_ended', 'context_ended', 'context_ended'],
  );
  assert.equal((await state('late')).state, 'ended');
});

test('a sandbox that starts again has no contexts, and one without the layer says what is missing', async () => {
  await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'bare', layers: ['000-base-debian'] });
  const missing = await api.post('/v1/sandboxes/bare/contexts/default-python/cells', { code: '1' });
  assert.deepEqual([missing.status, missing.json.code], [409, 'interpreter_missing'], missing.text);
  await daemon.call('POST', '/v1/sandboxes/bare/modules', { module: '120-interpreter' });
  const { items } = (await daemon.call('GET', '/v1/sandboxes/bare/contexts')) as {
    readonly items: unknown[];
  };
  assert.deepEqual(items, []);
  assert.equal(
    (await api.post('/v1/sandboxes/bare/contexts/default-python/cells', { code: '1' })).status,
    200,
  );
  await daemon.call('DELETE', '/cgi-bin/api/sandboxes/bare');
  await daemon.call('POST', '/cgi-bin/api/sandboxes/box/snapshot', { label: 'now' });
  await daemon.call('POST', '/cgi-bin/api/sandboxes/box/restore', { label: 'now' });
  await waitFor('the context to have ended', async () => (await state('py')).state === 'ended');
  const over = await api.post(`${box}/contexts/py/cells`, { code: '1' });
  assert.deepEqual([over.status, over.json.code], [409, 'context_ended'], over.text);
  assert.equal((await run('default-python', '1')).status, 'ok');
});

/** What a program for Node prints, in a folder of its own. */
async function printedBy(folder: string, text: string): Promise<string> {
  await symlink(join(repository, 'node_modules'), join(folder, 'node_modules')).catch(() => 'it is there');
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', text], {
    cwd: folder,
    env: { PATH: process.env['PATH'], SQUASH_API: daemon.url },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { code, stdout, stderr } = await endOf(child);
  assert.equal(code, 0, stderr.toString());
  return stdout.toString();
}

test('the program of docs/sdk.md that runs code prints what stands under it', async () => {
  const page = await readFile(join(repository, 'docs/sdk.md'), 'utf8');
  const [, text = '', printed] =
    /## Code in an interpreter\n\n```ts\n(.*?)^```\n.*?^```text\n(.*?)^```$/ms.exec(page) ?? [];
  await using folder = await mkdtempDisposable(join(tmpdir(), 'squash-session-'));
  assert.equal(await printedBy(folder.path, text), printed);
});

test('the session of docs/sdk.md prints what stands under it, makes its picture, and reaches nothing but Debian', async (t) => {
  if (await isSingleId(daemon)) return t.skip(noApt);
  await using folder = await mkdtempDisposable(join(tmpdir(), 'squash-session-'));
  await checkSession('ts', folder.path, (text) => printedBy(folder.path, text));
});

test('squash mcp runs cells that keep state, and answers values, errors and plots to a model', async () => {
  const client = new Client({ name: 'test', version: '1' });
  const [command, script] = cliCommand;
  const args = ['--no-warnings', script, 'mcp', '--sandbox', 'box'];
  await client.connect(new StdioClientTransport({ command, args, env: cliEnvironment(daemon) }));
  const cell = async (code: string, more: object = {}, options: object = {}) =>
    (await client.callTool({ name: 'run_code', arguments: { code, ...more } }, options)).content;
  const shown = async (code: string, more: object = {}) => JSON.stringify(await cell(code, more));
  assert.match(await shown('x = 20\nprint("hi")\nx + 1'), /\[result \w+\]\\n21\\n[^]*\[stdout \w+\]\\nhi\\n/);
  assert.match(await shown('x / 0'), /raised an error[^]*ZeroDivisionError/);
  assert.match(await shown('print("a" * 100_000)'), /\[cut \w+: [\d,]+ bytes left out here/);
  const picture = `import base64, IPython.display as d\nd.display(d.Image(base64.b64decode("${pixel}")))`;
  assert.match(await shown(picture), new RegExp(`"type":"image","data":"${signature.png}[^]*"image/png"`));
  const forged = ['"%%%"', 'd.b2a_base64(b"no picture").decode()'].map(
    (each) => `d.publish({"image/png": ${each}})`,
  );
  const names =
    'import binascii, IPython.display as i\nclass d: publish = staticmethod(i.publish_display_data); b2a_base64 = binascii.b2a_base64';
  assert.match(
    await shown([names, 'print("told")', ...forged].join('\n')),
    /told[^]*images: 0 of 2 are shown"}\]$/,
  );
  const stop = new AbortController();
  const cancelled = cell('import time\ntime.sleep(60)', {}, { signal: stop.signal });
  const becomes = (wanted: string) =>
    waitFor(`the context to be ${wanted}`, async () => (await state('default-python')).state === wanted);
  await becomes('busy');
  stop.abort();
  await assert.rejects(cancelled);
  await becomes('idle');
  assert.match(await shown('"still " + str(x)', {}), /still 20/);
  assert.match(await shown('x', { restart: true }), /NameError/);
  await client.close();
});

test('squash mcp gives its sandboxes the interpreter where it is built', async () => {
  const client = new Client({ name: 'test', version: '1' });
  const [command, script] = cliCommand;
  const args = ['--no-warnings', script, 'mcp'];
  await client.connect(new StdioClientTransport({ command, args, env: cliEnvironment(daemon) }));
  const { content } = await client.callTool({ name: 'run_code', arguments: { code: '6 * 7' } });
  assert.match(JSON.stringify(content), /\[result \w+\]\\n42\\n/);
  await client.close();
});

test('the commands of docs/interpreter.md work in their order', async () => {
  const page = await readFile(join(repository, 'docs/interpreter.md'), 'utf8');
  const block = /^```sh\n([^]*?)^```$/m.exec(page)?.[1] ?? '';
  const text = block
    .replaceAll('localhost:8080', `localhost:${daemon.port}`)
    .replaceAll(/^curl /gm, 'curl -sS --fail ');
  const env = cliEnvironment(daemon);
  const child = spawn('bash', ['-euo', 'pipefail', '-c', text], {
    env: { ...env, PATH: `${repository}:${env['PATH'] ?? ''}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { code, stdout, stderr } = await endOf(child);
  assert.equal(code, 0, stderr);
  assert.match(stdout.toString(), /"text":"21"[^]*"stdout":"42\\n"[^]*"html":"<b>6<\/b>"[^]*"items":\[/);
});

test('both SDKs run cells', async () => {
  const sandbox = await new Squash({ url: daemon.url }).sandboxes.get('box');
  assert.equal((await sandbox.runCode('a = 6; a * 7')).results[0]?.text, '42');
  const context = await sandbox.contexts.create({ language: 'javascript', context: 'sdk' });
  const types: string[] = [];
  for await (const event of context.stream('console.log(1); 2')) types.push(event.type);
  assert.deepEqual(types, ['cell', 'stdout', 'result', 'end']);
  const program = [
    'from squash import Sandbox, Squash',
    `box = Squash(url="${daemon.url}").sandboxes.get("box")`,
    'context = box.contexts.get("sdk")',
    'print(box.run_code("a").results[0].text, context.run("3").results[0].text, [c.name for c in box.contexts.list()])',
    'context.remove()',
  ];
  const child = spawn('/usr/bin/python3', ['-B', '-c', program.join('\n')], {
    cwd: join(repository, 'python'),
    env: { HOME: '/nonexistent' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { stdout, stderr } = await endOf(child);
  assert.equal(stdout.toString(), "6 3 ['default-python', 'sdk']\n", stderr);
});
