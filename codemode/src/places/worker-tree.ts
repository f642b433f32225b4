/**
 * What an engine needs in a place that holds nothing else: this Node with the libraries it is linked to, the worker's program, the engines'
 * packages. No shell, no package manager, no registry: it is made from what is installed here, and named after its content.
 */
import { createHash } from 'node:crypto';
// Not `globSync` by name, which an older Node would refuse before `node-version.ts` could say so.
import fs, {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { CodemodeError } from '../errors.ts';
import type { EngineName } from '../protocol/frames.ts';
import { libraries } from './confinement.ts';
import { engineFolders, sourceExtension } from './programs.ts';
import { makeScratchDirectory } from './scratch-directory.ts';

const source = dirname(import.meta.dirname);

/** What the worker imports, directly and through others. */
const folders = ['engines', 'kernel', 'protocol', 'worker'];
const engines = ['quickjs', 'isolated-vm'] as const;

/** Where the worker's program is inside. */
export const programInside = `/codemode/src/worker/main${sourceExtension}`;

export interface Entry {
  readonly from: string;
  readonly to: string;
}

/** One tree for all engines that are installed. @throws CodemodeError `unavailable` where the one asked for is not */
export async function treeContents(wanted: EngineName): Promise<readonly Entry[]> {
  const programs = folders.flatMap((folder) =>
    fs
      .globSync([`${folder}/**/*${sourceExtension}`, `${folder}/*.image`], { cwd: source })
      .filter((path) => !/\.(?:test|d)\.ts$/.test(path)),
  );
  const packages = new Set(engines.flatMap((engine) => packageFolders(engine, wanted)));
  return [
    { from: process.execPath, to: 'usr/bin/node' },
    ...(await libraries(process.execPath)).map((path) => ({ from: realpathSync(path), to: path.slice(1) })),
    ...programs.map((path) => ({ from: join(source, path), to: `codemode/src/${path}` })),
    { from: join(dirname(source), 'package.json'), to: 'codemode/package.json' },
    ...[...packages].flatMap((folder) => packageFiles(folder)),
  ];
}

function packageFolders(engine: EngineName, wanted: EngineName): readonly string[] {
  try {
    return engineFolders(engine).filter((folder) => folder !== source);
  } catch (failure) {
    if (engine !== wanted && failure instanceof CodemodeError) return [];
    throw failure;
  }
}

/** Binaries for other machines and sources of the native part are left out: they are most of the size. */
function packageFiles(folder: string): readonly Entry[] {
  const foreign = /^(?:src|binding\.gyp|build)\b|prebuilds\/(?!linux-)|\.map$|\.md$/;
  return fs
    .globSync('**/*', { cwd: folder })
    .filter((path) => !foreign.test(path) && statSync(join(folder, path)).isFile())
    .map((path) => ({ from: join(folder, path), to: join('codemode/node_modules', basename(folder), path) }));
}

/** Node's own 120 MB are told by its version and size. "a+rX" are the modes: a tree of before, closed to other users, has another name. */
export function digestOf(entries: readonly Entry[]): string {
  const hash = createHash('sha256').update(`${process.version} ${process.arch} a+rX`);
  for (const { from, to } of [...entries].sort((a, b) => (a.to < b.to ? -1 : 1))) {
    const { size } = statSync(from);
    hash.update(`${to} ${size}\n`);
    if (size < 4_194_304) hash.update(readFileSync(from));
  }
  return hash.digest('hex').slice(0, 16);
}

/** Lays the tree out in a folder of its own for as long as `work` takes. Any user inside may read it, whatever the umask is here. */
export async function withTree<T>(entries: readonly Entry[], work: (root: string) => Promise<T>): Promise<T> {
  const scratch = makeScratchDirectory('image');
  const root = join(scratch, 'tree');
  try {
    for (const { from, to } of entries) {
      mkdirSync(join(root, dirname(to)), { recursive: true, mode: 0o755 });
      cpSync(from, join(root, to));
    }
    for (const folder of ['proc', 'sys', 'dev', 'etc', 'tmp', 'run', 'root'])
      mkdirSync(join(root, folder), { recursive: true });
    writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0::/root:/\nnobody:x:65534:65534::/:/\n');
    openToAll(root);
    return await work(root);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function openToAll(root: string): void {
  chmodSync(root, 0o755);
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    // It may lead to a file of this machine.
    if (entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    chmodSync(path, entry.isDirectory() || (statSync(path).mode & 0o100) !== 0 ? 0o755 : 0o644);
  }
}
