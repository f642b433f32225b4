/**
 * Puts the CLI's sources into one file that Node starts quickly: `.cache/cli/built`, read by `cli/bin/squash.cjs`.
 *
 * The file is one line of JSON (`BuiltHead`), the code as ASCII, and the code as V8 compiled it. The three are one
 * file because V8 tells compiled code from another's by the source's length only: they must be replaced
 * together. Ends with 1 where a source changed while it was read: the caller then runs the sources.
 */
import { mkdirSync, renameSync, rmSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { Script } from 'node:vm';
import { build } from 'esbuild';
import type { start } from '../../cli/src/main.ts';
import { withStandIn } from './daemon-stand-in.ts';

interface BuiltHead {
  /** Path from the project's folder, time of the last change (ms), bytes. */
  readonly inputs: readonly (readonly [path: string, modifiedMs: number, bytes: number])[];
  readonly codeBytes: number;
}

/** The only source that may ask where it lies. */
const placesPath = 'cli/src/places.ts';
/** What else the result depends on: which file a name of the contract means, and how it is built. */
const silentInputs = [
  'box/package.json',
  'contract/package.json',
  'policy/package.json',
  'sdk/package.json',
  'cli/bin/squash.cjs',
  'tools/setup/build-cli.ts',
  'tools/setup/daemon-stand-in.ts',
];
const usualCalls = [['ls'], ['version'], ['exec', '-n', 'dev', 'true']];
/** File systems stamp times by the kernel's tick (10 ms at most): a younger file may change without a new time. */
const settledMs = 20;

const root = join(import.meta.dirname, '../..');

async function bundle(): Promise<{ readonly code: string; readonly paths: readonly string[] }> {
  const result = await build({
    absWorkingDir: root,
    entryPoints: ['cli/src/main.ts'],
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    target: `node${process.versions.node}`,
    format: 'cjs',
    // Without comments the code is ASCII, which V8 reads without decoding. Names stay: a stack trace can be read.
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: 'none',
    define: { 'import.meta.dirname': 'sourceDirectory' },
    // A package of its own that starts processes from its own files: it is loaded from its sources, when it is called.
    // And those that load libraries of their own.
    external: [
      '@squash/codemode',
      '@squash/codemode/*',
      '@squash/mcp',
      '@squash/box/policy/*',
      '@squash/certificate/*',
      '@squash/ssh/*',
    ],
    // A script outside of Node's loaders has no `import()`; `require` loads the same.
    supported: { 'dynamic-import': false },
    logLevel: 'warning',
  });
  const paths = Object.keys(result.metafile.inputs).map((path) => relative(root, join(root, path)));
  for (const path of paths) {
    if (path !== placesPath && readFileSync(join(root, path), 'utf8').includes('import.meta')) {
      throw new Error(`${path} asks where it lies: use ${placesPath}`);
    }
  }
  const text = result.outputFiles[0]?.text ?? '';
  return { code: `(function(require,module,sourceDirectory){${text}\n})`, paths };
}

/**
 * What usual calls run, by running them: without it each function is compiled when it is first called, 2.5 ms of a call;
 * all functions of all commands would be read by every call, 1.5 ms.
 */
async function compile(code: string): Promise<Buffer> {
  const script = new Script(code, { filename: join(root, '.cache/cli/built') });
  const program = { exports: {} as { readonly start: typeof start } };
  script.runInThisContext()(createRequire(import.meta.url), program, join(root, 'cli/src'));
  await withStandIn(async (socketPath) => {
    for (const call of usualCalls) await program.exports.start(['--socket', socketPath, ...call]);
  });
  // A call sets its own exit code; ours says whether the file was built.
  process.exitCode = 0;
  return script.createCachedData();
}

function stampsOf(paths: readonly string[]): BuiltHead['inputs'] {
  return paths.map((path) => {
    const { mtimeMs, size } = statSync(join(root, path));
    return [path, mtimeMs, size];
  });
}

const began = Date.now();
const { code, paths } = await bundle();
const inputs = stampsOf([...paths, ...silentInputs]);
if (inputs.some(([, modifiedMs]) => modifiedMs > began - settledMs)) process.exit(1);

const head: BuiltHead = { inputs, codeBytes: Buffer.byteLength(code) };
const directory = join(root, '.cache/cli');
const temporary = join(directory, `built.${process.pid}.tmp`);
mkdirSync(directory, { recursive: true, mode: 0o755 });
try {
  const parts = [Buffer.from(`${JSON.stringify(head)}\n${code}`), await compile(code)];
  // Flushed before it gets its name: after a power cut the name must not stand for a torn file.
  writeFileSync(temporary, Buffer.concat(parts), { mode: 0o644, flush: true });
  renameSync(temporary, join(directory, 'built'));
} finally {
  rmSync(temporary, { force: true });
}
