/** How the worker's program is started by each runtime: paths, flags, and why each flag is there. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { CodemodeError } from '../errors.ts';
import type { EngineName } from '../protocol/frames.ts';
import type { ChildCommand } from './child.ts';

const source = dirname(import.meta.dirname);
export const workerProgram = join(source, 'worker/main.ts');

/** UTC everywhere: a run must not tell where its host stands. */
const env = { TZ: 'UTC', LANG: 'C.UTF-8' };

/** The folders a worker reads: its own program, and the engine's package. */
export function engineFolders(engine: EngineName): readonly string[] {
  return engine === 'node-vm'
    ? [source]
    : [
        source,
        packageFolder(engine === 'quickjs' ? 'quickjs-wasi' : engine),
        ...needs[engine].map(packageFolder),
      ];
}

/** What the engines' packages need at run time themselves. */
const needs: Readonly<Record<'quickjs' | 'isolated-vm' | 'vm2', readonly string[]>> = {
  quickjs: [],
  'isolated-vm': ['node-gyp-build'],
  vm2: ['acorn', 'acorn-walk'],
};

function packageFolder(name: string): string {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
  } catch (cause) {
    throw new CodemodeError('unavailable', `the package "${name}" is not installed`, { cause });
  }
}

export function nodeCommand(engine: EngineName, memoryMb: number): ChildCommand {
  return {
    program: process.execPath,
    args: [...nodeFlags(engine, memoryMb), ...permissionFlags(engine), workerProgram, 'fd3'],
    env,
    channel: 'fd3',
  };
}

export function nodeFlags(engine: EngineName, memoryMb: number): readonly string[] {
  return [
    // Node says with each TypeScript file that it strips types.
    '--no-warnings',
    // isolated-vm asks for it: its isolates can't start from Node's snapshot.
    ...(engine === 'isolated-vm' ? ['--no-node-snapshot'] : []),
    // The heap that is the code's (vm2), or the worker's own with frames of 16 MB in it.
    `--max-old-space-size=${engine === 'vm2' ? memoryMb + 48 : 256}`,
    // A main thread has 8 MB of stack; with half of it the interpreter's own limit comes first, which the code can catch.
    ...(engine === 'quickjs' ? ['--stack-size=3900'] : []),
    // Nobody attaches a debugger to a process that runs foreign code.
    '--disable-sigusr1',
  ];
}

function permissionFlags(engine: EngineName): readonly string[] {
  return [
    '--permission',
    ...engineFolders(engine).map((folder) => `--allow-fs-read=${folder}/`),
    `--allow-fs-read=${join(dirname(source), 'package.json')}`,
    // node-gyp-build asks which C library this is before it picks the binary.
    ...(engine === 'isolated-vm' ? ['--allow-addons', '--allow-fs-read=/etc/alpine-release'] : []),
  ];
}

/** Deno without a single permission; its module graph is static, so it needs none to load its own program. */
export function denoCommand(memoryMb: number, extraEnv: Readonly<Record<string, string>>): ChildCommand {
  return {
    program: denoBinary(),
    args: [
      'run',
      '--quiet',
      '--no-prompt',
      '--no-config',
      '--no-npm',
      '--no-remote',
      '--no-lock',
      '--cached-only',
      ...['read', 'write', 'net', 'env', 'run', 'sys', 'ffi', 'import'].map(
        (permission) => `--deny-${permission}`,
      ),
      `--v8-flags=--max-old-space-size=${memoryMb + 48}`,
      workerProgram,
      'stdio',
    ],
    env: { ...env, DENO_NO_UPDATE_CHECK: '1', NO_COLOR: '1', DENO_DIR: '/nonexistent', ...extraEnv },
    channel: 'stdio',
  };
}

function denoBinary(): string {
  const libc = 'glibc';
  const name = `@deno/${process.platform}-${process.arch}${process.platform === 'linux' ? `-${libc}` : ''}`;
  try {
    const require = createRequire(createRequire(import.meta.url).resolve('deno/package.json'));
    return join(dirname(require.resolve(`${name}/package.json`)), 'deno');
  } catch (cause) {
    throw new CodemodeError('unavailable', 'the package "deno" is not installed', { cause });
  }
}
