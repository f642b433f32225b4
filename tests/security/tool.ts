/**
 * The attack tool, compiled static from `attack/*.c`, and a layer that holds it as `/attack/attack`. Both are
 * kept in `.cache/` by the hash of the sources.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { repository } from '../support/base-layer.ts';

const run = promisify(execFile);
const sources = join(import.meta.dirname, 'attack');

export interface AttackTool {
  readonly program: string;
  /** A squashfs with the program as `/attack/attack`. */
  readonly module: string;
}

export async function attackTool(): Promise<AttackTool> {
  const files = (await readdir(sources)).filter((name) => /\.[ch]$/.test(name)).sort();
  const hash = createHash('sha256');
  for (const name of files) hash.update(name).update(await readFile(join(sources, name)));
  const cache = join(repository, '.cache', 'attack');
  const folder = join(cache, hash.digest('hex').slice(0, 16));
  const tool = { program: join(folder, 'attack'), module: join(folder, 'attack.squashfs') };
  if (existsSync(tool.module)) return tool;
  await mkdir(cache, { recursive: true });
  const work = await mkdtemp(join(cache, 'build-'));
  try {
    await build(work, files);
    // Tests run side by side: whoever comes second finds the folder there.
    await rename(work, folder).catch((error: unknown) => {
      if (!existsSync(tool.module)) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return tool;
}

async function build(work: string, files: readonly string[]): Promise<void> {
  const program = join(work, 'attack');
  const paths = files.filter((name) => name.endsWith('.c')).map((name) => join(sources, name));
  const strict = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror', '-static'];
  await run('gcc', [...strict, '-o', program, ...paths, '-lpthread']);
  await chmod(work, 0o755);
  const layer = join(work, 'layer/attack');
  await mkdir(layer, { recursive: true });
  await copyFile(program, join(layer, 'attack'));
  const options = ['-all-root', '-noappend', '-no-progress', '-quiet'];
  await run('mksquashfs', [join(work, 'layer'), join(work, 'attack.squashfs'), ...options]);
  await rm(join(work, 'layer'), { recursive: true });
}
