/**
 * What Node compiles of the project's files, compiled here for the guest's paths: an emulated Node takes half a minute to take the
 * types out of them, and this one a second. In the guest Node looks for each entry whether it still fits its source.
 *
 * A daemon that starts with nothing compiled is the business of tests/e2e/first-start.test.ts.
 */
import { execFile } from 'node:child_process';
import { glob, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { memoryFlags as egressFlags } from '../../host/src/egress/egress-process.ts';
import { memoryFlags as daemonFlags } from '../../host/src/serve.ts';

const run = promisify(execFile);
const projectFolder = join(import.meta.dirname, '../..');

/** The guest's users whose commands run Node, beside root: entries are kept by user, and are the same for all. */
const otherUsers = [1000, 1001];
interface Part {
  /** Of Node's disk. */
  readonly folder: 'commands' | 'run' | 'egress';
  /** V8 takes nothing that was compiled under other settings than its own. */
  readonly flags: readonly string[];
  /** Globs; what they import is compiled with them. */
  readonly files: readonly string[];
}

const parts: readonly Part[] = [
  {
    folder: 'commands',
    flags: [],
    files: ['{base,certificate,cli,contract,egress,host,installation,policy}/src/**/!(*.test).ts'],
  },
  { folder: 'run', flags: daemonFlags, files: ['host/src/main.ts'] },
  { folder: 'run', flags: [], files: ['host/src/offline-inside.ts'] },
  { folder: 'egress', flags: egressFlags, files: ['egress/src/main.ts'] },
];
const asRoot = '--unshare-user --uid 0 --ro-bind / / --dev /dev --proc /proc --tmpfs /opt'.split(' ');

/**
 * Makes folders in this one: of Node's cache for commands, which holds these other programs of the project as well, and of the
 * caches that daemon and egress process have.
 */
export async function compileAhead(folder: string, others: readonly string[]): Promise<readonly string[]> {
  const folders = [...new Set(parts.map((part) => join(folder, part.folder)))];
  for (const each of folders) await mkdir(each);
  await Promise.all(
    parts.map((part, index) => compile({ folder, part, index }, part.folder === 'commands' ? others : [])),
  );
  for (const each of folders) {
    // Node writes entries for itself alone.
    await run('chmod', ['-R', 'a+rX', each]);
    for (const entry of await readdir(each))
      for (const user of otherUsers) await symlink(entry, join(each, entry.replace(/0$/, String(user))));
  }
  return folders;
}

async function compile(
  { folder, part, index }: { readonly folder: string; readonly part: Part; readonly index: number },
  others: readonly string[],
): Promise<void> {
  const files = [...(await Array.fromAsync(glob(part.files, { cwd: projectFolder }))), ...others];
  // All modules are compiled before the first is evaluated, and that one ends the process.
  const imports = ['data:text/javascript,process.exit()', ...files.map((file) => `/opt/squash/${file}`)];
  const program = `compile-${index}.mjs`;
  await writeFile(join(folder, program), imports.map((name) => `import '${name}';\n`).join(''));
  // Entries are found by path and user, so the project lies where it lies in the guest, and is read by id 0.
  const place = ['--ro-bind', projectFolder, '/opt/squash', '--bind', folder, '/opt/work'];
  const node = ['--ro-bind', process.execPath, '/opt/node', '/opt/node', '--no-warnings', ...part.flags];
  const cache = ['--setenv', 'NODE_COMPILE_CACHE', `/opt/work/${part.folder}`];
  await run('bwrap', [...asRoot, ...place, ...cache, ...node, `/opt/work/${program}`]);
}
