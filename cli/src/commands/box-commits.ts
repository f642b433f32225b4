/** `squash box commits`: what commits a box has that are on no branch here. */
import { type BoxCommit } from '../box/box-git.ts';
import { branchHere, withBoxGit } from '../box/git-scene.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';

interface Branch {
  readonly branch: string;
  readonly tip: string;
  /** The newest of them. */
  readonly commits: readonly BoxCommit[];
  readonly more: boolean;
  /** What `box fetch` would call it. */
  readonly as: string;
}

const commitsMax = 100;
/** Each is asked for by itself. */
const branchesMax = 50;

export async function run(call: Call): Promise<number> {
  const [word = ''] = call.positionals;
  const leftOut: string[] = [];
  const found = await withBoxGit(call, word, async ({ box, inBox, quarantine, tips }) => {
    const branches: Branch[] = [];
    for (const branch of await inBox.branches(leftOut)) {
      if (branches.length === branchesMax) break;
      if (await quarantine.isHere(branch.tip)) continue;
      const commits = await inBox.commits(branch, { tips, max: commitsMax + 1 });
      branches.push({
        branch: branch.name,
        tip: branch.tip,
        commits: commits.slice(0, commitsMax),
        more: commits.length > commitsMax,
        as: branchHere(box, branch.name),
      });
    }
    return { box: box.id, branches };
  });
  if (call.json) printJson({ ...found, left_out: leftOut });
  else print(found.branches);
  tellLeftOut(call, leftOut);
  return exitCodes.ok;
}

function print(branches: readonly Branch[]): void {
  for (const { branch, commits, more, as } of branches) {
    printLine(`${branch}  (as ${as} when it is fetched)`);
    for (const { commit, author, subject } of commits)
      printLine(`  ${commit.slice(0, 10)} ${visible(subject)} (${visible(author)})`);
    if (more) printLine('  …');
  }
}

/** Shared with `box fetch`. */
export function tellLeftOut({ json }: Pick<Call, 'json'>, leftOut: readonly string[]): void {
  if (json) return;
  for (const ref of leftOut.slice(0, 10))
    printNote(`squash: left out: ${visible(ref).slice(0, 200)}: no name for a branch here`);
  if (leftOut.length > 10) printNote(`squash: and ${leftOut.length - 10} more`);
}
