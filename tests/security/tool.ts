/**
 * The attack tool, compiled static from `attack/*.c`, and a layer that holds it as `/attack/attack`; and programs of one
 * file beside this one. All are kept in `.cache/` by the hash of their sources: tests/vm takes them along into a machine that
 * has no compiler.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { repository } from '../support/base-layer.ts';

const run = promisify(execFile);
const sources = join(import.meta.dirname, 'attack');
export const toolCache = join(repository, '.cache', 'attack');

export interface AttackTool {
  readonly program: string;
  /** A squashfs with the program as `/attack/attack`. */
  readonly module: string;
}

export async function attackTool(): Promise<AttackTool> {
  const files = (await readdir(sources)).filter((name) => /\.[ch]$/.test(name)).sort();
  const folder = await kept(
    files.map((name) => join(sources, name)),
    (work) => build(work, files),
  );
  return { program: join(folder, 'attack'), module: join(folder, 'attack.squashfs') };
}

/** The program of `NAME.c` in this folder. */
export async function smallTool(name: 'evader' | 'counted' | 'guest'): Promise<string> {
  const source = join(import.meta.dirname, `${name}.c`);
  const folder = await kept([source], async (work) => {
    await run('gcc', ['-D_GNU_SOURCE', '-static', '-o', join(work, name), source, '-lpthread']);
    await chmod(join(work, name), 0o755);
  });
  return join(folder, name);
}

/** The folder that `make` has filled from these sources, now or at an earlier run. */
async function kept(paths: readonly string[], make: (work: string) => Promise<void>): Promise<string> {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(basename(path)).update(await readFile(path));
  const folder = join(toolCache, hash.digest('hex').slice(0, 16));
  if (existsSync(folder)) return folder;
  await mkdir(toolCache, { recursive: true });
  const work = await mkdtemp(join(toolCache, 'build-'));
  try {
    await make(work);
    await chmod(work, 0o755);
    // Tests run side by side: whoever comes second finds the folder there.
    await rename(work, folder).catch((error: unknown) => {
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return folder;
}

async function build(work: string, files: readonly string[]): Promise<void> {
  const program = join(work, 'attack');
  const paths = files.filter((name) => name.endsWith('.c')).map((name) => join(sources, name));
  const strict = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror', '-static'];
  await run('gcc', [...strict, '-o', program, ...paths, '-lpthread']);
  const layer = join(work, 'layer/attack');
  await mkdir(layer, { recursive: true });
  await copyFile(program, join(layer, 'attack'));
  const options = ['-all-root', '-noappend', '-no-progress', '-quiet'];
  await run('mksquashfs', [join(work, 'layer'), join(work, 'attack.squashfs'), ...options]);
  await rm(join(work, 'layer'), { recursive: true });
}
