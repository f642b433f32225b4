/**
 * The packed `@squash/sdk`, installed outside of the repository: one program in Node, Deno, Bun and a page of Chromium; and the compiler of
 * somebody who has none of Node's types.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { olderNode } from '../../tools/test/allowed-skips.ts';
import { quickstartModules, repository } from '../support/base-layer.ts';
import { Browser, noBrowser } from '../support/browser.ts';
import { TestDaemon } from '../support/daemon.ts';
import { patience } from '../support/wait.ts';

const run = promisify(execFile);
const token = 'the-operators-token';
/** Each sandbox is on the disk before it is told: behind what others write there that took half a minute. */
const hungMs = 150_000 * patience;

/** What every runtime has: `tell` is `console.log`, or the page's. */
const program = `import { NotFound, Squash, TimedOut } from '@squash/sdk';

export async function work(options) {
  const squash = new Squash(options);
  const said = [];
  await using box = await squash.sandboxes.create({ labels: { of: 'runtime' } });
  const { stdout, exit_code } = await box.exec(['sh', '-c', 'cat; exit 3'], { stdin: 'grün' });
  said.push(stdout + exit_code);
  const started = await box.start('read x; echo got $x; sleep 0.1; echo end >&2', { stdin: true });
  await started.write('line\\n');
  for await (const event of started.output()) if (event.type === 'output') said.push(event.stream, event.text);
  const large = new Uint8Array(2_000_000).fill(65);
  await box.files.write('/large', (async function* () { for (let at = 0; at < 4; at += 1) yield large.subarray(0, 500_000); })());
  const back = await box.files.read('/large');
  said.push(back.length, back.every((byte) => byte === 65));
  if (globalThis.process) {
    await box.files.uploadDirectory('tree', '/tree');
    await box.files.downloadDirectory('/tree', 'back-' + box.id);
  }
  for await (const event of box.files.watch('/tmp')) {
    if (event.type === 'watching') await box.files.makeDirectory('/tmp/new');
    else { said.push(event.path); break; }
  }
  said.push(await box.files.read('/none').catch((error) => error instanceof NotFound && error.code));
  said.push(await started.wait({ port: 9, timeout_ms: 20 }).catch((error) => error.code));
  const abort = new AbortController();
  const waiting = box.exec('sleep 5', { signal: abort.signal });
  setTimeout(() => abort.abort(), 50);
  said.push(await waiting.catch((error) => error.name));
  return said.join(' ').replaceAll('\\n', '|');
}
`;

const expected =
  'grün3 stdout got line| stderr end| 2000000 true new file_not_found process_ended AbortError';

let daemon: TestDaemon;
let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'squash-sdk-'));
  daemon = await TestDaemon.start({
    env: { SQUASH_AUTH_TOKEN: token },
    modules: await quickstartModules(),
  });
  await writeFile(join(folder, 'package.json'), '{"private":true,"type":"module"}');
  // As docs/sdk.md says it.
  const { stderr } = await run(join(repository, 'squash'), ['setup', 'sdk'], { timeout: 60_000 });
  const [, install = ''] = /^sdk +(npm install .*\.tgz)$/m.exec(stderr) ?? [];
  execFileSync('bash', ['-c', `${install} --offline --no-audit`], { cwd: folder, stdio: 'ignore' });
  // Those that can't read `await using` yet have a compiler that turns it into what they can.
  const esbuild = join(repository, 'node_modules/.bin/esbuild');
  await writeFile(join(folder, 'work.ts'), program);
  execFileSync(esbuild, ['work.ts', '--format=esm', '--target=es2022', '--outfile=work.js'], {
    cwd: folder,
    stdio: 'ignore',
  });
  await mkdir(join(folder, 'tree/deep'), { recursive: true });
  await writeFile(join(folder, 'tree/deep/file'), 'in a tree');
  await writeFile(
    join(folder, 'main.js'),
    `import { work } from './work.js';\nconst [url, token] = process.argv.slice(2);\nconsole.log(await work({ url, token }));\n`,
  );
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** Nothing of the runtime's own is written anywhere but here. */
async function runs(words: readonly string[], url: string): Promise<string> {
  const [command = '', ...rest] = words;
  const env = { PATH: '/usr/bin:/bin', HOME: folder, DENO_DIR: join(folder, 'deno'), NO_COLOR: '1' };
  const { stdout } = await run(command, [...rest, 'main.js', url, token], {
    cwd: folder,
    env,
    timeout: hungMs,
  });
  const [back, ...more] = (await readdir(folder)).filter((name) => name.startsWith('back-'));
  assert.ok(back !== undefined && more.length === 0);
  assert.equal(await readFile(join(folder, back, 'deep/file'), 'utf8'), 'in a tree');
  await rm(join(folder, back), { recursive: true });
  return stdout.trim();
}

function binary(name: string): string {
  const found = [`node_modules/${name}`, `tests/clients/node_modules/${name}`]
    .map((path) => join(repository, path))
    .find((path) => existsSync(path));
  assert.ok(found !== undefined, `${name} is not installed`);
  return found;
}

const [denoArch, bunArch] = process.arch === 'arm64' ? ['arm64', 'aarch64'] : ['x64', 'x64-baseline'];

describe('the packed SDK', () => {
  const socket = (): string => `unix:${join(daemon.dataDir, 'run/api.sock')}`;

  it('works in Node, over TCP and a Unix socket', async () => {
    assert.equal(await runs([process.execPath], daemon.url), expected);
    assert.equal(await runs([process.execPath], socket()), expected);
  });

  it('works in an older Node', {
    skip: olderNode() === undefined ? 'no older Node here' : false,
  }, async () => {
    assert.equal(await runs([olderNode() ?? ''], daemon.url), expected);
  });

  it('works in Deno, over TCP and a Unix socket', async () => {
    const deno = binary(`@deno/linux-${denoArch}-glibc/deno`);
    assert.equal(await runs([deno, 'run', '-A', '--no-remote'], daemon.url), expected);
    assert.equal(await runs([deno, 'run', '-A', '--no-remote'], socket()), expected);
  });

  it('works in Bun, over TCP and a Unix socket', async () => {
    const bun = binary(`@oven/bun-linux-${bunArch}/bin/bun`);
    assert.equal(await runs([bun, 'run'], daemon.url), expected);
    assert.equal(await runs([bun, 'run'], socket()), expected);
  });

  it('works in a page that has the daemon behind its own host', { skip: noBrowser ?? false }, async () => {
    const server = await pageServer();
    const { port } = server.address() as AddressInfo;
    await using browser = await Browser.start();
    try {
      const page = await browser.open(`http://127.0.0.1:${port}/`);
      await page.until('typeof work === "function"');
      assert.equal(await page.evaluate(`work({ token: ${JSON.stringify(token)} })`), expected);
    } finally {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    }
  });

  it('runs every program of docs/sdk.md, which prints what stands under it', async () => {
    const page = await readFile(join(repository, 'docs/sdk.md'), 'utf8');
    const examples = [...page.matchAll(/^```ts\n(.*?)^```$(?:(?!^```ts).)*?^```text\n(.*?)^```$/gms)];
    assert.equal(examples.length, [...page.matchAll(/^```ts$/gm)].length);
    const env = { PATH: '/usr/bin:/bin', HOME: folder, SQUASH_API: daemon.url, SQUASH_AUTH_TOKEN: token };
    await Promise.all(
      examples.map(async ([, text = '', printed], index) => {
        // The test of contexts runs it, where the layer is.
        if (text.includes('runCode')) return;
        const file = `example-${index}.ts`;
        await writeFile(join(folder, file), text);
        const { stdout } = await run(process.execPath, [file], { cwd: folder, env, timeout: hungMs });
        assert.equal(stdout, printed, text);
      }),
    );
  });

  it('has types that fit a program under strict, without those of Node', async () => {
    await writeFile(join(folder, 'user.ts'), userProgram);
    const compilerOptions = {
      noEmit: true,
      strict: true,
      exactOptionalPropertyTypes: true,
      module: 'nodenext',
      target: 'es2022',
      lib: ['es2022', 'dom', 'dom.asynciterable', 'esnext.disposable'],
      types: [],
    };
    const files = ['user.ts'];
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    for (const compiler of ['node_modules/typescript', 'tests/clients/node_modules/typescript']) {
      const tsc = join(repository, compiler, 'bin/tsc');
      const { stdout } = await run(process.execPath, [tsc], {
        cwd: folder,
      }).catch((error: unknown) => error as { readonly stdout: string });
      assert.equal(stdout, '', compiler);
    }
  });
});

const userProgram = `import { type ExecResult, type ProcessEvent, type SandboxRecord, Sandbox, Squash } from '@squash/sdk';

export async function use(): Promise<SandboxRecord> {
  await using box = await Sandbox.create({ from: { layers: ['000-base-debian'] }, policy: { allow: [] } });
  const result: ExecResult = await box.exec(['true'], { timeout_ms: 1000 });
  const code: number | null = result.check().exit_code;
  // @ts-expect-error: no such option
  await box.exec('true', { timeout: 1 });
  // @ts-expect-error: argv and shell are the command's
  await box.start('true', { shell: 'true' });
  const process = await box.start('exit ' + code, { tag: 'x' });
  for await (const event of process.output()) {
    const each: ProcessEvent = event;
    if (each.type === 'gap') return box.info;
  }
  for await (const each of new Squash({ url: 'http://localhost' }).sandboxes.list()) await each.remove();
  return await box.refresh();
}
`;

/** A page's host, with the daemon behind it: what a reverse proxy does. */
async function pageServer(): Promise<Server> {
  const files: Readonly<Record<string, string>> = {
    '/': `<script type="importmap">{"imports":{"@squash/sdk":"/sdk.js"}}</script>
<script type="module">import { work } from '/work.js'; globalThis.work = work;</script>`,
    '/sdk.js': await readFile(join(folder, 'node_modules/@squash/sdk/dist/index.js'), 'utf8'),
    '/work.js': await readFile(join(folder, 'work.js'), 'utf8'),
  };
  const server = createServer((incoming, outgoing) => {
    const { method, url = '', headers } = incoming;
    const file = files[url];
    if (file !== undefined) {
      const type = url === '/' ? 'text/html' : 'text/javascript';
      outgoing.writeHead(200, { 'content-type': type }).end(file);
      return;
    }
    const behind = request(`${daemon.url}${url}`, { method, headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
    });
    behind.on('error', () => outgoing.destroy());
    outgoing.on('close', () => behind.destroy());
    incoming.pipe(behind);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
