/**
 * What git writes in a repository's directory are files of it, and no links: git appends to its logs through one, with a name and an address
 * that the repository's own configuration says. In a repository that came as an archive the log of `HEAD` may be a link to `~/.bashrc`.
 */
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { GitDirectories } from '../worktree.ts';
import { GitProblem } from './problem.ts';

/** Of what is written for a branch that comes and is merged; directories with all that is in them. */
const written =
  'refs logs HEAD ORIG_HEAD index packed-refs shallow rr-cache MERGE_HEAD MERGE_MSG MERGE_MODE MERGE_RR AUTO_MERGE COMMIT_EDITMSG'.split(
    ' ',
  );
/** Names of branches and their logs. */
const entriesMax = 200_000;

/** @throws git_failed */
export function checkPlain({ own, common }: GitDirectories): void {
  const waiting = [...new Set([own, common])].flatMap((directory) => [
    ...['objects', 'objects/pack'].map((name) => ({ path: join(directory, name), isWalked: false })),
    ...written.map((name) => ({ path: join(directory, name), isWalked: true })),
  ]);
  let entries = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { path, isWalked } = next;
    const stats = lstatSync(path, { throwIfNoEntry: false });
    entries += 1;
    if (stats?.isSymbolicLink() === true)
      throw new GitProblem('git_failed', `"${path}" is a link, and git would write to what it leads to`);
    if (entries > entriesMax)
      throw new GitProblem('git_failed', `"${common}" has more than ${entriesMax} branches and logs`);
    if (isWalked && stats?.isDirectory() === true)
      waiting.push(...readdirSync(path).map((name) => ({ path: join(path, name), isWalked })));
  }
}
