/** How the worker's program is started by each runtime: paths, flags, and why each flag is there. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { CodemodeError } from '../errors.ts';
import type { EngineName } from '../protocol/frames.ts';
import type { ChildCommand } from './child.ts';

/** util-linux, on every Debian. */
export const prlimit = ['/usr/bin/prlimit', '/bin/prlimit'].find((path) => existsSync(path));

const source = dirname(import.meta.dirname);
/** `.ts` in the repository, `.js` in the published package: Node strips no types below a `node_modules`. */
export const sourceExtension = extname(import.meta.filename);
export const workerProgram = join(source, `worker/main${sourceExtension}`);

/** UTC everywhere: a run must not tell where its host stands. */
const env = { TZ: 'UTC', LANG: 'C.UTF-8' };

/** The folders a worker reads: its own program, and the engine's packages. */
export function engineFolders(engine: EngineName): readonly string[] {
  return [source, ...packagePlaces(engine).map((place) => realpathSync(place))];
}

/** The engine's package, then what that needs at run time itself. */
const packages: Readonly<Record<EngineName, readonly string[]>> = {
  'node-vm': [],
  quickjs: ['quickjs-wasi'],
  'isolated-vm': ['isolated-vm', 'node-gyp-build'],
  vm2: ['vm2', 'acorn', 'acorn-walk'],
};

/** As a worker finds them: some package managers put a link there. */
function packagePlaces(engine: EngineName): readonly string[] {
  const [name, ...needs] = packages[engine];
  if (name === undefined) return [];
  const place = packagePlace(name, import.meta.filename);
  return [place, ...needs.map((each) => packagePlace(each, `${realpathSync(place)}/`))];
}

function packagePlace(name: string, from: string): string {
  const found = (createRequire(from).resolve.paths(name) ?? [])
    .map((folder) => join(folder, name))
    .find((place) => existsSync(join(place, 'package.json')));
  if (found === undefined) throw new CodemodeError('unavailable', `the package "${name}" is not installed`);
  return found;
}

export function nodeCommand(engine: EngineName, memoryMb: number): ChildCommand {
  return {
    program: process.execPath,
    args: [
      ...nodeFlags(engine, memoryMb, isStackWide && prlimit !== undefined),
      ...permissionFlags(engine),
      workerProgram,
      'fd3',
    ],
    env,
    channel: 'fd3',
    files: readable(engine),
  };
}

/** Of the 8 MB that a main thread has everywhere, and of what it may be given where that is in somebody's hands. */
const narrowStackKb = 7400;
const wideStackKb = 14_000;
export const wideStackBytes = 16_777_216;

/** Whether a process of this one's may be given a larger stack. */
export const isStackWide = hasRoomForStack();

function hasRoomForStack(): boolean {
  try {
    const hard = /^Max stack size\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return hard === 'unlimited' || Number(hard) >= wideStackBytes;
  } catch {
    return false;
  }
}

/** @param isWide the place sets the limit on the stack to `wideStackBytes` */
export function nodeFlags(engine: EngineName, memoryMb: number, isWide: boolean): readonly string[] {
  const stackKb = isWide ? wideStackKb : narrowStackKb;

  return [
    // Node says with each TypeScript file that it strips types.
    '--no-warnings',
    // isolated-vm asks for it: its isolates can't start from Node's snapshot.
    ...(engine === 'isolated-vm' ? ['--no-node-snapshot'] : []),
    // The heap that is the code's (vm2), or the worker's own with frames of 16 MB in it.
    `--max-old-space-size=${engine === 'vm2' ? memoryMb + 48 : 256}`,
    // Its calls are Node's own, and take ten times as much of the stack as those of V8.
    ...(engine === 'quickjs' ? [`--stack-size=${stackKb}`] : []),
    // Nobody attaches a debugger to a process that runs foreign code.
    '--disable-sigusr1',
  ];
}

/** The worker's folders, and the file that says how its program is to be read. */
function readable(engine: EngineName): readonly string[] {
  const folders = new Set([...engineFolders(engine), ...packagePlaces(engine)]);
  return [...folders, join(dirname(source), 'package.json')];
}

function permissionFlags(engine: EngineName): readonly string[] {
  return [
    '--permission',
    ...readable(engine).map((path) => `--allow-fs-read=${path}${path.endsWith('.json') ? '' : '/'}`),
    // node-gyp-build asks which C library this is before it picks the binary.
    ...(engine === 'isolated-vm' ? ['--allow-addons', '--allow-fs-read=/etc/alpine-release'] : []),
  ];
}

/** Deno goes without a cache where it can make none: here not even root can. */
const noDirectory = '/dev/null/deno';

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
    env: { ...env, DENO_NO_UPDATE_CHECK: '1', NO_COLOR: '1', DENO_DIR: noDirectory, ...extraEnv },
    channel: 'stdio',
    files: [],
  };
}

/** @throws CodemodeError `unavailable` */
export function denoBinary(): string {
  const libc = 'glibc';
  const name = `@deno/${process.platform}-${process.arch}${process.platform === 'linux' ? `-${libc}` : ''}`;
  try {
    const require = createRequire(createRequire(import.meta.url).resolve('deno/package.json'));
    return join(dirname(require.resolve(`${name}/package.json`)), 'deno');
  } catch (cause) {
    throw new CodemodeError('unavailable', 'the package "deno" is not installed', { cause });
  }
}
