/** `squash box merge`: what a box has committed, and what it has not yet, merged into the branch that is checked out here. */
import { GitProblem } from '@squash/box/git/problem';
import { levelAt } from '@squash/box/levels';
import { type GitScene, fetchBranches, withBoxGit } from '../box/git-scene.ts';
import { listBoxes } from '../box/boxes.ts';
import { baseOf, type BoxRecord } from '../box/record.ts';
import { sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printLine, printNote, visible, visibleLines } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  return await mergeBox(call);
}

/** @param shown the commit that somebody has looked at: another one is refused */
export async function mergeBox(call: Call, shown?: string): Promise<number> {
  const { flags, json } = call;
  const [word = ''] = call.positionals;
  const merged = await withBoxGit(call, word, async (scene) => await merge(call, scene, shown));
  const { daemon, box, branch, paths } = merged;
  if (flags.isSet('rm')) await daemon.client.delete(sandboxRecordPath(box));
  if (json) printJson({ box, branch, paths, commit: merged.after, removed: flags.isSet('rm') });
  else if (merged.before === merged.after) printNote('squash: there is nothing in it that is not here');
  else {
    for (const path of paths) printLine(visible(path));
    printNote(`squash: merged ${branch}`);
  }
  return exitCodes.ok;
}

const shownLinesMax = 5_000;
const lineCharactersMax = 2_000;

/**
 * What a merge would bring, as a patch, once it is here as a branch: the files in the box may say otherwise, for git there leaves out of a
 * commit what it was told to take for unchanged.
 */
export async function showMerge(call: Call): Promise<{ readonly tip: string; readonly as: string }> {
  const [word = ''] = call.positionals;
  const { tip, as, lines } = await withBoxGit(call, word, async (scene) => {
    const { branch, host } = await bring(call, scene);
    const base = (await host.text(['merge-base', 'HEAD', branch.tip])).trim();
    const how = ['-p', '--no-color', '--no-ext-diff', '--no-textconv', '--no-renames'];
    return { ...branch, lines: (await host.text(['diff-tree', ...how, base, branch.tip])).split('\n') };
  });
  for (const line of lines.slice(0, shownLinesMax)) {
    const more = line.length > lineCharactersMax ? '…' : '';
    printLine(`${visibleLines(line.slice(0, lineCharactersMax))}${more}`);
  }
  if (lines.length > shownLinesMax)
    printNote(`squash: ${lines.length - shownLinesMax} lines more: git diff HEAD...${tip.slice(0, 10)}`);
  return { tip, as };
}

/** The box's branch as it is now, with what is not committed there, as one of this repository. */
async function bring({ flags }: Call, scene: GitScene) {
  const { box, daemon, inBox, repository, quarantine } = scene;
  const writer = (await listBoxes(daemon)).find((each) => writes(each, repository.path));
  if (writer !== undefined)
    throw new GitProblem(
      'merge_refused',
      `box ${writer.id} writes the files of "${repository.path}" itself, and git is not run there; to have the commits: squash box fetch ${box.id}`,
    );
  const name = await inBox.current();
  if (name === undefined)
    throw new GitProblem(
      'branch_refused',
      `nothing is checked out in the box that has a branch’s name: squash box exec ${box.id} -- git switch -c NAME`,
    );
  const message = flags.text('message') ?? `Changes of box ${box.name ?? box.id}`;
  await inBox.commitAll(message, await baseBehind(scene, name));
  const { fetched } = await fetchBranches(scene, { names: [name] });
  const [branch] = fetched;
  if (branch === undefined) throw new CliFailure('git_failed', `the box’s branch "${name}" did not come`);
  const host = quarantine.host.with({
    gitDirectory: repository.directories.own,
    worktree: repository.path,
  });
  return { branch, host };
}

async function merge(call: Call, scene: GitScene, shown: string | undefined) {
  const { heldChanges, identityOf, mergeBranch } = await import('@squash/box/git/merge');
  const { turnOver } = await import('@squash/box/git/turn');
  const { box, daemon, repository } = scene;
  const { branch, host } = await bring(call, scene);
  if (shown !== undefined && shown !== branch.tip)
    throw new GitProblem(
      'merge_refused',
      `the box has other commits than those that were shown: nothing was merged; the branch here is ${branch.as}`,
    );
  using _turn = await turnOver(repository.directories.own, scene.signal);
  const held = call.flags.isSet('held') ? [] : await heldChanges(host, branch.tip);
  if (held.length > 0) throw heldFailure(held, branch.as);
  const identity = await identityOf(host, process.env);
  const own = host.with({ env: identity });
  const done = await mergeBranch(own, {
    ref: `refs/heads/${branch.as}`,
    message: call.flags.text('message'),
  });
  return { ...done, daemon, box: box.id, branch: branch.as };
}

function writes({ host_paths: paths }: BoxRecord, directory: string): boolean {
  return levelAt(new Map(Object.entries(paths ?? {})), directory) === 'rw';
}

/**
 * A box that has committed nothing sees the branch move that is checked out here, and its files would take back what was committed
 * meanwhile. They were made over the commit with which it began.
 */
async function baseBehind({ box, inBox, quarantine }: GitScene, name: string): Promise<string | undefined> {
  const { commit, ref } = baseOf(box);
  if (ref !== `refs/heads/${name}`) return undefined;
  const tip = (await inBox.branches()).find((each) => each.name === name)?.tip;
  const isOurs = tip !== undefined && tip === (await quarantine.valueOf(ref));
  return isOurs && tip !== commit ? commit : undefined;
}

function heldFailure(held: readonly { readonly path: string; readonly why: string }[], branch: string) {
  const list = held.slice(0, 20).map(({ path, why }) => `  ${visible(path)} (${visible(why)})`);
  const more = held.length > list.length ? [`  and ${held.length - list.length} more`] : [];
  const text = ['these are held back; look at them, then take them along with --held:', ...list, ...more];
  return new GitProblem(
    'held_back',
    [...text, `nothing was merged; the branch here is ${branch}`].join('\n'),
  );
}
