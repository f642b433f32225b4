/**
 * What Node compiles of the project's files, compiled here for the guest's paths: an emulated Node takes half a minute to take the
 * types out of them, and this one a second. In the guest Node looks for each entry whether it still fits its source.
 *
 * It is for tests that run there; the programs are built before. A daemon that starts with nothing compiled is the business of
 * tests/e2e/first-start.test.ts.
 */
import { execFile } from 'node:child_process';
import { glob, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const projectFolder = join(import.meta.dirname, '../..');

/** The guest's users whose commands run Node, beside root: entries are kept by user, and are the same for all. */
const otherUsers = [1000, 1001];
/** What they import is compiled with them. */
const sources = '{base,certificate,cli,contract,egress,groups,host,installation,policy}/src/**/!(*.test).ts';
const asRoot = '--unshare-user --uid 0 --ro-bind / / --dev /dev --proc /proc --tmpfs /opt'.split(' ');

/** Makes Node's cache in this folder, of the sources and of these other programs of the project. @returns its path */
export async function compileAhead(folder: string, others: readonly string[]): Promise<string> {
  const cache = join(folder, 'commands');
  await mkdir(cache);
  await compile(folder, [...(await Array.fromAsync(glob(sources, { cwd: projectFolder }))), ...others]);
  // Node writes entries for itself alone.
  await run('chmod', ['-R', 'a+rX', cache]);
  for (const entry of await readdir(cache))
    for (const user of otherUsers) await symlink(entry, join(cache, entry.replace(/0$/, String(user))));
  return cache;
}

async function compile(folder: string, files: readonly string[]): Promise<void> {
  // All modules are compiled before the first is evaluated, and that one ends the process.
  const imports = ['data:text/javascript,process.exit()', ...files.map((file) => `/opt/squash/${file}`)];
  await writeFile(join(folder, 'compile.mjs'), imports.map((name) => `import '${name}';\n`).join(''));
  // Entries are found by path and user, so the project lies where it lies in the guest, and is read by id 0.
  const place = ['--ro-bind', projectFolder, '/opt/squash', '--bind', folder, '/opt/work'];
  const node = ['--ro-bind', process.execPath, '/opt/node', '/opt/node', '--no-warnings'];
  const cache = ['--setenv', 'NODE_COMPILE_CACHE', '/opt/work/commands'];
  await run('bwrap', [...asRoot, ...place, ...cache, ...node, '/opt/work/compile.mjs']);
}
