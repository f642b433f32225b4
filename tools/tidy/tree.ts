/**
 * The repository as text: which files git tracks or would track, and their contents.
 *
 * Files that git ignores (node_modules, .cache, native/build) do not exist for these checks, so a check never
 * depends on what a machine has built.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

export const root = path.resolve(import.meta.dirname, '../..');

export interface SourceFile {
  /** Relative to the root, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

/** What one check found wrong; empty where the tree is as it should be. */
export type Findings = readonly string[];

/** Every file of the tree whose name ends with one of the endings. */
export function files(...endings: readonly string[]): readonly SourceFile[] {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 16 * 1024 * 1024,
  });
  return listed
    .split('\0')
    .filter((name) => name !== '' && endings.some((ending) => name.endsWith(ending)))
    .filter((name) => existsSync(path.join(root, name)))
    .sort()
    .map((name) => ({ path: name, text: readFileSync(path.join(root, name), 'utf8') }));
}

export function read(name: string): string {
  return readFileSync(path.join(root, name), 'utf8');
}
