/** The published package in an empty project: packed by npm, without the repository's sources, its daemon, or engines nobody asked for. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
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
      ['README.md', 'dist/engines/quickjs.image', 'package.json'],
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
        'vm2: npm install vm2',
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
    writeFileSync(
      join(project, 'user.ts'),
      `import { createExecutor, type ExecuteResult } from '@squash/codemode';
const given: Promise<ExecuteResult> = createExecutor('quickjs').execute('1');
// @ts-expect-error no such executor
createExecutor('eval');
export { given };`,
    );
    const flags = [
      '--noEmit',
      '--strict',
      '--module',
      'nodenext',
      '--target',
      'esnext',
      '--skipLibCheck',
      '--types',
      'node',
    ];
    const types = ['--typeRoots', join(root, 'node_modules/@types')];
    const checked = spawnSync(
      process.execPath,
      [join(root, 'node_modules/typescript/bin/tsc'), ...flags, ...types, 'user.ts'],
      { cwd: project, encoding: 'utf8' },
    );
    assert.equal(checked.stdout, '');
    assert.equal(checked.status, 0);
  });
});
