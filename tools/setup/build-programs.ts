/**
 * Puts a program's sources into one file that Node starts quickly, `.cache/built/…`, read by `base/bin/built.cjs`:
 * `build-programs.ts [source…]`, all programs where none is named.
 *
 * The file is one line of JSON (`BuiltHead`), the code as ASCII, and the code as V8 compiled it. The three are one
 * file because V8 tells compiled code from another's by the source's length only: they must be replaced
 * together. Ends with 1 where a source changed while it was read: the caller then runs the sources.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, renameSync, rmSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { Script } from 'node:vm';
import { build } from 'esbuild';
import type { start } from '../../cli/src/main.ts';
import type { loadDaemon } from '../../host/src/main.ts';
import { withStandIn } from './daemon-stand-in.ts';
import { lateModules, lateNamespace } from './late-modules.ts';
import { lateZod } from './late-zod.ts';

export interface BuiltHead {
  /** Path from the project's folder, time of the last change (ms), bytes. */
  readonly inputs: readonly (readonly [path: string, modifiedMs: number, bytes: number])[];
  readonly codeBytes: number;
}
interface Program {
  /** V8 takes nothing that was compiled under other settings than its own. */
  readonly flags?: () => Promise<readonly string[]>;
  /** Packages that are loaded when they are called: they load libraries or start processes from their own files. */
  readonly external?: readonly string[];
  /** Its schemas are made when they are first used. */
  readonly lateSchemas?: boolean;
  /** It rarely needs what is loaded late then. */
  readonly lateModules?: boolean;
  /** Runs usual calls, whose functions are then compiled in the file: else each is compiled when it is first called. */
  readonly use?: (exported: object) => Promise<void>;
}

const programs: Readonly<Record<string, Program>> = {
  'cli/src/main.ts': {
    external: [
      '@squash/codemode',
      '@squash/codemode/*',
      '@squash/mcp',
      '@squash/box/policy/*',
      '@squash/box/srt/*',
      '@squash/box/deer/*',
      '@squash/certificate/*',
      '@squash/ssh/*',
      // Half of the file, for one rare command each.
      'dockerfile-ast',
      'zod',
    ],
    // 2.5 ms of a call, 5 of a box; all functions of all commands would be read by every call, 1.5 ms.
    use: async (exported) => {
      const cli = exported as { readonly start: typeof start };
      await withStandIn(async (socketPath) => {
        for (const call of [['ls'], ['version'], ['exec', '-n', 'dev', 'true'], ...boxCalls()])
          await cli.start(['--socket', socketPath, ...call]);
      });
    },
  },
  'host/src/serve.ts': {},
  'host/src/offline.ts': {},
  'host/src/offline-inside.ts': {},
  'host/src/main.ts': {
    flags: async () => (await import('../../base/src/daemon-command.ts')).memoryFlags,
    lateSchemas: true,
    lateModules: true,
    // For buckets alone, a third of the file; for agents that ask for it.
    external: ['@aws-sdk/*', '@modelcontextprotocol/*'],
    // It loads its greater part when it has begun.
    use: async (exported) =>
      void (await (exported as { readonly loadDaemon: typeof loadDaemon }).loadDaemon()),
  },
  'egress/src/main.ts': {
    lateSchemas: true,
    flags: async () => (await import('../../host/src/egress/egress-process.ts')).memoryFlags,
  },
};

/** None where policies lie: what they say, such as a command that tells a secret, is not to be done for this. */
function boxCalls(): readonly (readonly string[])[] {
  process.env['XDG_CONFIG_HOME'] = '/proc/none';
  process.env['SQUASH_STANDBY'] = 'off';
  process.chdir(root);
  return existsSync('/etc/squash') ? [] : [['box', 'run', 'true']];
}

/** What else the result depends on: which file a name of the contract means, and how it is built. */
const silentInputs = [
  'box/package.json',
  'contract/package.json',
  'policy/package.json',
  'sdk/package.json',
  'base/bin/built.cjs',
  'tools/setup/build-programs.ts',
  'tools/setup/daemon-stand-in.ts',
  'tools/setup/late-modules.ts',
  'tools/setup/late-zod.ts',
];
const installed = 'node_modules/.package-lock.json';
/** File systems stamp times by the kernel's tick (10 ms at most): a younger file may change without a new time. */
const settledMs = 20;

const root = join(import.meta.dirname, '../..');
const { metaOf } = createRequire(import.meta.url)('../../base/bin/built.cjs') as {
  readonly metaOf: (source: string) => ImportMeta;
};

async function bundle(
  source: string,
  { external = [], ...late }: Program,
): Promise<{ readonly code: string; readonly paths: readonly string[] }> {
  const result = await build({
    absWorkingDir: root,
    entryPoints: [source],
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
    external: [...external],
    // A script outside of Node's loaders has no `import()`; `require` loads the same.
    supported: { 'dynamic-import': false },
    logLevel: 'warning',
    plugins: [
      {
        // All sources are one file: what each asks of itself it is told.
        name: 'meta',
        setup: (building) => {
          building.onLoad({ filter: /\.ts$/ }, ({ path }) => {
            const text = readFileSync(path, 'utf8');
            if (!text.includes('import.meta')) return undefined;
            const meta = `metaOf(${JSON.stringify(relative(root, path))})`;
            const contents = text.replaceAll('import.meta.main', 'false').replaceAll('import.meta', meta);
            return { contents, loader: 'ts' };
          });
        },
      },
      ...(late.lateSchemas === true ? [lateZod] : []),
      ...(late.lateModules === true ? [lateModules] : []),
    ],
  });
  const read = Object.keys(result.metafile.inputs)
    .filter((path) => !path.startsWith(lateNamespace))
    .map((path) => relative(root, join(root, path)));
  // Of libraries, what npm writes when it has changed any: they are a thousand files.
  const paths = read.map((path) => (path.startsWith('node_modules/') ? installed : path));
  const text = result.outputFiles[0]?.text ?? '';
  return { code: `(function(require,module,metaOf){${text}\n})`, paths };
}

async function compile(code: string, filename: string, { use }: Program): Promise<Buffer> {
  const script = new Script(code, { filename });
  const program = { exports: {} };
  script.runInThisContext()(createRequire(join(root, 'base/bin/built.cjs')), program, metaOf);
  await use?.(program.exports);
  return script.createCachedData();
}

function stampsOf(paths: readonly string[]): BuiltHead['inputs'] {
  return paths.map((path) => {
    const { mtimeMs, size } = statSync(join(root, path));
    return [path, mtimeMs, size];
  });
}

/** The exit code. */
async function buildProgram(source: string, program: Program): Promise<number> {
  const began = Date.now();
  const { code, paths } = await bundle(source, program);
  const inputs = stampsOf([...new Set([...paths, ...silentInputs])]);
  if (inputs.some(([, modifiedMs]) => modifiedMs > began - settledMs)) return 1;
  const head: BuiltHead = { inputs, codeBytes: Buffer.byteLength(code) };
  const path = join(root, '.cache/built', source.slice(0, -'.ts'.length));
  const temporary = `${path}.${process.pid}.tmp`;
  // The daemon's id is neither ours nor of our group.
  process.umask(0o022);
  mkdirSync(dirname(path), { recursive: true });
  try {
    const parts = [Buffer.from(`${JSON.stringify(head)}\n${code}`), await compile(code, path, program)];
    // Flushed before it gets its name: after a power cut the name must not stand for a torn file.
    writeFileSync(temporary, Buffer.concat(parts), { mode: 0o644, flush: true });
    renameSync(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
  return 0;
}

async function flagsOf(source: string): Promise<readonly string[]> {
  return (await programs[source]?.flags?.()) ?? [];
}

/** In a process of its own: with its settings, and with nothing of another's loaded. The exit code. */
async function buildApart(source: string): Promise<number> {
  const words = ['--no-warnings', ...(await flagsOf(source)), import.meta.filename, source];
  const child = spawn(process.execPath, words, { stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}

const named = process.argv.slice(2);
const sources = named.length === 0 ? Object.keys(programs) : named;
const unknown = sources.find((source) => programs[source] === undefined);
if (unknown !== undefined)
  throw new Error(`no program "${unknown}"; there are ${Object.keys(programs).join(', ')}`);
const [only = ''] = sources;
const program = programs[only];
if (
  program !== undefined &&
  sources.length === 1 &&
  (await flagsOf(only)).every((flag) => process.execArgv.includes(flag))
) {
  // The program may have set its own exit code, or left something open; ours says whether the file was built.
  process.exit(await buildProgram(only, program));
}
// A child has the settings that its program wants, and builds it: there is no third one.
process.exit(Math.max(...(await Promise.all(sources.map(buildApart)))));
