/**
 * Writes `@squash/sdk` as it is published into a directory: `node tools/setup/build-sdk.ts DIRECTORY`, and then `npm pack DIRECTORY`.
 *
 * The code is one file, for Node, Deno, Bun and browsers as it stands: what it takes from the contract is in it, so the package has no
 * dependency. The declarations need neither Node's types nor a certain compiler.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '../..');

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

async function buildSdk(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true });
  const shared = {
    bundle: true,
    format: 'esm',
    target: 'es2022',
    legalComments: 'none',
    logLevel: 'warning',
  } as const;
  await build({
    ...shared,
    entryPoints: [join(root, 'sdk/src/index.ts')],
    outfile: join(directory, 'dist/index.js'),
    // Node's modules are asked for while it runs, where there are any.
    platform: 'neutral',
  });
  await build({
    ...shared,
    entryPoints: [join(root, 'sdk/src/srt/index.ts')],
    outfile: join(directory, 'dist/srt.js'),
    // It starts programs of this machine: it is for Node alone.
    platform: 'node',
  });
  declare(directory);
  cpSync(join(root, 'docs/sdk.md'), join(directory, 'README.md'));
  // npm packs a file of this name whatever `files` says.
  cpSync(join(root, 'LICENSE'), join(directory, 'LICENSE'));
  writeFileSync(join(directory, 'package.json'), `${JSON.stringify(published(), null, 2)}\n`);
}

function published() {
  const { name, version, license } = JSON.parse(
    readFileSync(join(root, 'sdk/package.json'), 'utf8'),
  ) as Manifest;
  return {
    name,
    version,
    description: 'Sandboxes for agents: create, run, watch and remove them on a Squash daemon',
    license,
    type: 'module',
    // `process.getBuiltinModule`
    engines: { node: '>=20.16' },
    exports: {
      '.': { types: './dist/types/index.d.ts', default: './dist/index.js' },
      './srt': { types: './dist/types/srt/index.d.ts', default: './dist/srt.js' },
    },
    files: ['dist'],
    sideEffects: false,
  };
}

/** One declaration for each source, and none for what the contract has. */
function declare(directory: string): void {
  const project = join(directory, 'tsconfig.json');
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    allowImportingTsExtensions: true,
    rewriteRelativeImportExtensions: true,
    stripInternal: true,
    rootDir: root,
    outDir: join(directory, 'declared'),
    typeRoots: [join(root, 'node_modules/@types')],
  };
  const extended = relative(directory, join(root, 'tsconfig.json'));
  const files = [join(root, 'sdk/src/index.ts'), join(root, 'sdk/src/srt/index.ts')];
  writeFileSync(project, JSON.stringify({ extends: `./${extended}`, include: [], files, compilerOptions }));
  try {
    execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '--project', project], {
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    cpSync(join(directory, 'declared/sdk/src'), join(directory, 'dist/types'), { recursive: true });
  } finally {
    rmSync(project);
    rmSync(join(directory, 'declared'), { recursive: true, force: true });
  }
}

const [directory] = process.argv.slice(2);
if (directory === undefined) throw new Error('node tools/setup/build-sdk.ts DIRECTORY');
await buildSdk(resolve(directory));
