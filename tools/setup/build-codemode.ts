/**
 * Writes `@squash/codemode` as it is published into a directory: `node tools/setup/build-codemode.ts DIRECTORY`. In the repository Node runs the
 * sources; below a `node_modules` it strips no types, so the published package holds JavaScript and declarations.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { bootImageFile } from '../../codemode/src/engines/quickjs.ts';

const root = join(import.meta.dirname, '../..');

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: unknown;
}

export async function buildCodemode(directory: string): Promise<void> {
  const folder = join(root, 'codemode');
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
  mkdirSync(directory, { recursive: true });
  // No exports: a program and a thread that the package starts.
  const started = ['./src/worker/main.ts', './src/source/prepare-thread.ts'];
  compile(
    directory,
    [...Object.values(manifest.exports), ...started].map((path) => join(folder, path)),
  );
  // The kernel as it is built: what an engine boots where it can't take the image.
  const built = pathToFileURL(join(directory, 'dist/kernel/source.js')).href;
  const { kernelSource } = (await import(built)) as { readonly kernelSource: string };
  writeFileSync(join(directory, 'dist/engines/quickjs.image'), await bootImageFile(kernelSource));
  cpSync(join(root, 'docs/codemode.md'), join(directory, 'README.md'));
  // npm packs a file of this name whatever `files` says.
  cpSync(join(root, 'LICENSE'), join(directory, 'LICENSE'));
  writeFileSync(join(directory, 'package.json'), `${JSON.stringify(published(manifest), null, 2)}\n`);
}

/** What follows from the sources' manifest, so that it is written down once. */
function published({
  name,
  version,
  exports,
  dependencies,
  peerDependencies,
  peerDependenciesMeta,
}: Manifest) {
  const { license, engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly license: string;
    readonly engines: unknown;
  };
  const faces = Object.entries(exports).map(([face, path]) => {
    const built = path.replace('./src/', './dist/').replace(/\.ts$/, '');
    return [face, { types: `${built}.d.ts`, default: `${built}.js` }] as const;
  });
  return {
    name,
    version,
    description: 'Runs programs that models write, with the tools they are given, in engines that hold',
    license,
    type: 'module',
    engines,
    exports: Object.fromEntries(faces),
    files: ['dist'],
    dependencies,
    peerDependencies,
    peerDependenciesMeta,
  };
}

/** Each file by itself, with what it imports: the places start and copy single files. */
function compile(directory: string, files: readonly string[]): void {
  const project = join(directory, 'tsconfig.json');
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    allowImportingTsExtensions: false,
    rewriteRelativeImportExtensions: true,
    rootDir: join(root, 'codemode/src'),
    outDir: join(directory, 'dist'),
    typeRoots: [join(root, 'node_modules/@types')],
  };
  const extended = relative(directory, join(root, 'tsconfig.json'));
  writeFileSync(project, JSON.stringify({ extends: `./${extended}`, include: [], files, compilerOptions }));
  try {
    execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '--project', project], {
      stdio: ['ignore', 'inherit', 'inherit'],
    });
  } finally {
    rmSync(project);
  }
}

if (import.meta.main) {
  const directory = process.argv[2];
  if (directory === undefined) throw new TypeError('usage: node tools/setup/build-codemode.ts DIRECTORY');
  await buildCodemode(resolve(directory));
}
