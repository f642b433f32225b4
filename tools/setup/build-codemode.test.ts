/** The published package in an empty project: packed by npm, without the repository's sources, its daemon, or engines nobody asked for. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { olderNode } from '../test/allowed-skips.ts';
import { buildCodemode } from './build-codemode.ts';

const root = join(import.meta.dirname, '../..');
/** What its manifest asks for and the engine that this project wants; further ones of theirs are found beside these. */
const installed = [
  'acorn',
  'zod',
  '@modelcontextprotocol/client',
  '@modelcontextprotocol/server',
  'quickjs-wasi',
];

/** The first program of the document that is the package's README. */
function headline(): string {
  const document = readFileSync(join(root, 'docs/codemode.md'), 'utf8');
  const found = /```ts\n([^]*?)```/.exec(document)?.[1];
  assert.ok(found !== undefined);
  return found;
}

/** What a user's compiler must understand, and refuse, of the published types. */
const userProgram = `import { catalogOf, createExecutor, toolTreeOf, type CatalogEntry, type ExecuteResult, type ToolTree } from '@squash/codemode';
import { availableExecutors } from '@squash/codemode/availability';
import { McpServers } from '@squash/codemode/mcp';
import { createVm2Executor } from '@squash/codemode/vm2';
import { z } from 'zod';

const executor = createExecutor('quickjs', { limits: { wallMs: 1000 } });
const given: Promise<ExecuteResult> = executor.execute('1', { read: async (path: string) => path.length });
const nested: ToolTree = { fs: { read: async (path: string, size?: number) => path.slice(0, size) }, now: () => Date.now() };
const entries: readonly CatalogEntry[] = catalogOf({
  read: {
    inputSchema: z.object({ path: z.string(), lines: z.number().default(10) }),
    // What Zod makes of it, without a word of the user's.
    execute: async ({ path, lines }) => path.slice(0, lines.toFixed().length),
  },
  plain: (n: number) => n + 1,
  json: { inputSchema: { type: 'object' }, execute: (input) => typeof input },
  none: { description: 'takes nothing', execute: () => 1 },
});
catalogOf({
  wrong: {
    inputSchema: z.object({ path: z.string() }),
    // @ts-expect-error there is no such field
    execute: ({ pth }) => pth,
  },
});
// @ts-expect-error a tool is a function
void executor.execute('1', { read: 5 });
// @ts-expect-error no such executor
createExecutor('eval');
// @ts-expect-error an adapter of its own
createExecutor('vm2');
// @ts-expect-error no such limit
createExecutor('quickjs', { limits: { wall: 1 } });
export { availableExecutors, createVm2Executor, entries, given, McpServers, nested, toolTreeOf };
`;

describe('@squash/codemode as it is published', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'squash-package-'));
  const project = join(scratch, 'project');

  before(async () => {
    const built = join(scratch, 'built');
    await buildCodemode(built);
    // npm would ask its registry for newer versions of itself, and keep logs at home.
    const env = {
      PATH: process.env['PATH'],
      npm_config_cache: join(scratch, 'npm'),
      npm_config_offline: 'true',
      npm_config_update_notifier: 'false',
    };
    const said = execFileSync('npm', ['pack', '--json', '--pack-destination', scratch], {
      cwd: built,
      env,
      encoding: 'utf8',
    });
    const [packed] = JSON.parse(said) as readonly [
      { readonly filename: string; readonly files: readonly { readonly path: string }[] },
    ];
    assert.deepEqual(
      packed.files
        .map(({ path }) => path)
        .filter((path) => !/^dist\/.+(?<!\.test)\.(?:js|d\.ts)$/.test(path)),
      ['LICENSE', 'README.md', 'dist/engines/quickjs.image', 'package.json'],
    );
    const place = join(project, 'node_modules/@squash/codemode');
    mkdirSync(place, { recursive: true });
    execFileSync('tar', ['-xzf', join(scratch, packed.filename), '-C', place, '--strip-components=1']);
    for (const name of installed) {
      mkdirSync(dirname(join(project, 'node_modules', name)), { recursive: true });
      symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name));
    }
    writeFileSync(join(project, 'package.json'), '{"private":true,"type":"module"}');
  });
  after(() => rmSync(scratch, { recursive: true, force: true }));

  /** A program of the project, with an environment that knows no Squash. */
  function run(code: string): unknown {
    const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
      cwd: project,
      env: { PATH: '/usr/bin:/bin' },
      encoding: 'utf8',
    });
    assert.equal(status, 0, stderr);
    assert.equal(stderr, '');
    return JSON.parse(stdout);
  }

  it('runs a program that calls a tool, in TypeScript, on the engine that is installed', () => {
    const answer = run(`import { createExecutor } from '@squash/codemode';
await using executor = createExecutor('quickjs');
const code = '// '+ 'long '.repeat(1000) + '\\nconst n: number = await codemode.add(20, 1); return { n, process: typeof process }';
const { result, error } = await executor.execute(code, { add: (a, b) => a + b });
console.log(JSON.stringify({ result, error }));`);
    assert.deepEqual(answer, { result: { n: 21, process: 'undefined' } });
  });

  it('starts QuickJS from the stored image, without the kernel; and with the kernel where the image is of another engine', () => {
    const dist = join(project, 'node_modules/@squash/codemode/dist');
    const program = `import { createExecutor } from '@squash/codemode';
await using executor = createExecutor('quickjs');
const { result, error } = await executor.execute('return [typeof codemode, Math.random() < 1, input]', {}, { input: 5 });
console.log(JSON.stringify({ result, error }));`;
    const answer = { result: ['object', true, 5] };
    const kernel = join(dist, 'kernel/source.js');
    renameSync(kernel, `${kernel}.away`);
    try {
      assert.deepEqual(run(program), answer);
    } finally {
      renameSync(`${kernel}.away`, kernel);
    }
    const image = join(dist, 'engines/quickjs.image');
    const bytes = readFileSync(image);
    // In the digest of the engine's WebAssembly, which is the second.
    writeFileSync(image, Buffer.from(bytes).fill(0, 32, 64));
    try {
      assert.deepEqual(run(program), answer);
    } finally {
      writeFileSync(image, bytes);
    }
  });

  it('says which engines are missing, and what to install', () => {
    const answer = run(`import { availableExecutors } from '@squash/codemode/availability';
import { createExecutor } from '@squash/codemode';
const missing = availableExecutors().filter(({ usable, name }) => !usable && name !== 'container');
let failure;
try { createExecutor('isolated-vm') } catch (thrown) { failure = [thrown.kind, thrown.message] }
console.log(JSON.stringify([missing.map(({ name, detail }) => name + ': ' + detail), failure]));`);
    assert.deepEqual(answer, [
      [
        'sandbox: no Squash daemon runs: squash serve',
        'isolated-vm: npm install isolated-vm',
        'deno: the package "deno" is not installed',
        "vm2: npm install vm2@3.12.2, import '@squash/codemode/vm2'",
      ],
      ['unavailable', 'the package "isolated-vm" is not installed'],
    ]);
  });

  it('offers MCP servers, and its declarations fit its programs', () => {
    assert.equal(
      run(`import { McpServers } from '@squash/codemode/mcp';
await using servers = await McpServers.connect({});
console.log(servers.entries.length)`),
      0,
    );
    writeFileSync(join(project, 'example.ts'), `${headline()}\nexport { result, logs, error };`);
    writeFileSync(join(project, 'user.ts'), userProgram);
    const flags = [
      '--noEmit',
      '--strict',
      '--module',
      'nodenext',
      '--target',
      'esnext',
      '--exactOptionalPropertyTypes',
      '--noUncheckedIndexedAccess',
      '--types',
      'node',
    ];
    const types = ['--typeRoots', join(root, 'node_modules/@types')];
    const checked = spawnSync(
      process.execPath,
      [join(root, 'node_modules/typescript/bin/tsc'), ...flags, ...types, 'user.ts', 'example.ts'],
      { cwd: project, encoding: 'utf8' },
    );
    assert.equal(checked.stdout, '');
    assert.equal(checked.status, 0);
  });
});

describe('@squash/codemode as npm installs it', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'squash-installed-'));
  const project = join(scratch, 'project');
  let missing: string | undefined;

  before(async () => {
    const built = join(scratch, 'built');
    await buildCodemode(built);
    mkdirSync(project);
    writeFileSync(join(project, 'package.json'), '{"private":true,"type":"module"}');
    const npm = (cwd: string, ...words: readonly string[]) =>
      spawnSync('npm', [...words, '--no-audit', '--no-fund', '--prefer-offline'], { cwd, encoding: 'utf8' });
    assert.equal(npm(built, 'pack', '--pack-destination', scratch).status, 0);
    const packed = readdirSync(scratch).find((name) => name.endsWith('.tgz')) ?? '';
    const { status, stderr } = npm(project, 'install', join(scratch, packed), 'quickjs-wasi@3.6.2');
    // Neither npm's cache nor its registry has what the package needs: nothing of ours.
    if (/ENOTCACHED|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|E40[0-9]|E50[0-9]/.test(stderr))
      missing = stderr;
    else assert.equal(status, 0, stderr);
  });
  after(() => rmSync(scratch, { recursive: true, force: true }));

  it('runs the first program of its README, and brings no engine that nobody asked for', (test) => {
    if (missing !== undefined) return test.skip(`npm can not install: ${missing.slice(0, 200)}`);
    const program = `${headline()}console.log(JSON.stringify({ result, logs, error }));`;
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: project,
      env: { PATH: '/usr/bin:/bin' },
      encoding: 'utf8',
    });
    assert.equal(stderr, '');
    assert.deepEqual(JSON.parse(stdout), { result: ['Page 1', 'Page 2', 'Page 3'], logs: ['got 3'] });
    const installed = readdirSync(join(project, 'node_modules'));
    assert.deepEqual(
      ['vm2', 'isolated-vm', 'deno', 'quickjs-wasi'].filter((name) => installed.includes(name)),
      ['quickjs-wasi'],
    );
  });

  it('says which Node it needs on one that is older', (test) => {
    if (missing !== undefined) return test.skip(`npm can not install: ${missing.slice(0, 200)}`);
    const older = olderNode();
    if (older === undefined) return test.skip('no older Node on this machine');
    for (const face of ['', '/availability', '/mcp', '/vm2']) {
      const program = `import '@squash/codemode${face}'`;
      const { stderr, status } = spawnSync(older, ['--input-type=module', '-e', program], {
        cwd: project,
        encoding: 'utf8',
      });
      assert.notEqual(status, 0);
      assert.match(stderr, /Error: @squash\/codemode needs Node 24 or later, and this is Node v/, face);
    }
  });
});
