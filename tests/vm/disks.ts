/**
 * The two read-only disks of the test guest: the project as it is on this machine now, and Node.
 *
 * A squashfs per boot rather than a shared folder: the guest can't touch the tree under test, what a test
 * sees is fixed at boot, and the cloud kernel has no 9p.
 */
import { execFile } from 'node:child_process';
import { glob, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { BuiltHead } from '../../tools/setup/build-programs.ts';
import { compileAhead } from './compiled.ts';

const run = promisify(execFile);
const projectFolder = join(import.meta.dirname, '../..');

/** Tools of development and hosts' caches: two hundred megabytes that the product does not run. */
const leftOut = [
  '.git',
  '.cache',
  'node_modules/@biomejs',
  'node_modules/@typescript',
  'node_modules/typescript',
  'node_modules/@oxlint*',
  'node_modules/oxlint*',
  'node_modules/knip',
  'node_modules/oxc-parser',
  'node_modules/@oxc-*',
  'node_modules/@redocly',
  'tests/clients/node_modules',
  'node_modules/@esbuild',
  'node_modules/esbuild',
];

/** Unpacked data reads fastest under emulation, and packing it costs no time. */
const uncompressed = ['-noI', '-noD', '-noF', '-noX', '-quiet', '-no-progress', '-noappend'];

export interface PackedDisks {
  readonly project: string;
  readonly node: string;
}

export interface DiskContents {
  /** Added to the project's disk as `vm/<name>`, e.g. a layer. */
  readonly files?: Readonly<Record<string, string>>;
  /** Files of the project that the guest runs beside the product, tests for example. */
  readonly programs?: readonly string[];
}

/** The built programs' lines of a pseudo file: as they are, with the times that their sources have in a squashfs, whole seconds. */
async function builtPrograms(folder: string): Promise<readonly string[]> {
  const from = join(projectFolder, '.cache/built');
  const lines = ['.cache/built d 755 0 0'];
  for await (const path of glob('**/*', { cwd: from })) {
    const name = `.cache/built/${path}`;
    if ((await stat(join(from, path))).isDirectory()) {
      lines.push(`${name} d 755 0 0`);
      continue;
    }
    const file = await readFile(join(from, path));
    const headEnd = file.indexOf('\n');
    const head = JSON.parse(file.toString('latin1', 0, headEnd)) as BuiltHead;
    const inputs = head.inputs.map(([input, modifiedMs, bytes]) => [
      input,
      Math.floor(modifiedMs / 1000) * 1000,
      bytes,
    ]);
    const copy = join(folder, path);
    await mkdir(dirname(copy), { recursive: true });
    await writeFile(
      copy,
      Buffer.concat([Buffer.from(JSON.stringify({ ...head, inputs })), file.subarray(headEnd)]),
    );
    lines.push(`${name} f 644 0 0 cat '${copy}'`);
  }
  return lines;
}

/**
 * Writes both disks into `folder`; Node's holds what Node has compiled of the project, too.
 * `squash` in the guest finds Node through `.cache/node-path`, as on any machine.
 */
export async function packDisks(
  folder: string,
  { files = {}, programs = [] }: DiskContents,
): Promise<PackedDisks> {
  const disks = { project: join(folder, 'project.squashfs'), node: join(folder, 'node.squashfs') };
  const pseudo = [
    '.cache d 755 0 0',
    ...(await builtPrograms(join(folder, 'built'))),
    '.cache/node-path f 644 0 0 echo /opt/node/node',
    'vm d 755 0 0',
    ...Object.entries(files).map(([name, path]) => `vm/${name} f 644 0 0 cat '${path}'`),
  ];
  const pseudoFile = join(folder, 'pseudo');
  await writeFile(pseudoFile, `${pseudo.join('\n')}\n`);
  const exclude = ['-wildcards', '-e', ...leftOut];
  await run('mksquashfs', [
    projectFolder,
    disks.project,
    ...uncompressed,
    '-all-root',
    '-pf',
    pseudoFile,
    ...exclude,
  ]);
  const compiled = await compileAhead(folder, programs);
  await run('mksquashfs', [process.execPath, compiled, disks.node, ...uncompressed, '-all-root']);
  return disks;
}
