/**
 * Programs that Debian does not have and npm does: one file of a package, held against the digest that the recipe names.
 *
 * The machine's own npm fetches it, with its registry, proxy and cache; its own check is against what the registry says.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Failure } from '@squash/base/failure';
import type { Suite } from './bootstrap.ts';
import type { NpmProgram } from './recipes.ts';

const run = promisify(execFile);

/** Where each is, by its path in the layer. What a recipe has no digest of for this architecture is left out. */
export async function fetchPrograms(
  programs: Readonly<Record<string, NpmProgram>>,
  suite: Suite,
  scratch: string,
): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const [path, { file, version, packages }] of Object.entries(programs)) {
    const wanted = packages[suite.architecture];
    if (wanted === undefined) continue;
    const directory = join(scratch, 'npm', basename(path));
    mkdirSync(directory, { recursive: true });
    const archive = await fetchArchive(`${wanted.name}@${version}`, directory);
    const digest = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
    if (digest !== wanted.integrity) {
      throw new Failure(
        'wrong_digest',
        `npm package ${wanted.name}@${version}: ${digest} instead of ${wanted.integrity}`,
      );
    }
    await run('tar', ['-xzf', archive, '-C', directory, `package/${file}`]);
    // A name without anything that a shell reads.
    const program = join(directory, 'program');
    renameSync(join(directory, 'package', file), program);
    found[path] = program;
  }
  return found;
}

async function fetchArchive(name: string, directory: string): Promise<string> {
  // Node's own directory holds the npm that belongs to it.
  const path = `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`;
  const words = ['pack', name, '--prefer-offline', '--loglevel=error', '--pack-destination', directory];
  try {
    const { stdout } = await run('npm', words, { env: { ...process.env, PATH: path }, cwd: directory });
    return join(directory, basename(stdout.trim().split('\n').at(-1) ?? ''));
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error);
    throw new Failure('npm_failed', `npm can not fetch ${name}: ${said.trim().slice(-1_000)}`);
  }
}
