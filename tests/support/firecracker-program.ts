/** The Firecracker that suites run with: the one that SQUASH_FIRECRACKER names, or where there is none what stands in for it. */
import { execFileSync } from 'node:child_process';
import { chmodSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const sources = join(import.meta.dirname, 'firecracker');

/** Results tell which of them they were shown with. */
export const isRealFirecracker = process.env['SQUASH_FIRECRACKER'] !== undefined;

/** Root's helper makes the nodes; an ordinary user has the host's, as far as they are everybody's. */
export const isTunOpen =
  process.getuid?.() === 0 ||
  ((statSync('/dev/net/tun', { throwIfNoEntry: false })?.mode ?? 0) & 0o006) === 0o006;

export function firecrackerProgram(directory: string): string {
  return process.env['SQUASH_FIRECRACKER'] ?? standIn(directory, '1.16.1');
}

/** One that says it is of that version. */
export function standIn(directory: string, version: string): string {
  const path = join(directory, `firecracker-${version}`);
  const files = readdirSync(sources).filter((name) => name.endsWith('.c'));
  const strict = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror', '-static'];
  const words = [
    ...strict,
    `-DVERSION="${version}"`,
    '-o',
    path,
    ...files.map((name) => join(sources, name)),
  ];
  execFileSync('gcc', words);
  // The daemon's id is not the suite's.
  chmodSync(path, 0o755);
  return path;
}
