/** `squash box merge`: what a box has committed, and what it has not yet, merged into the branch that is checked out here. */
import { GitProblem } from '@squash/box/git/problem';
import { levelAt } from '@squash/box/levels';
import { type GitScene, fetchBranches, withBoxGit } from '../box/git-scene.ts';
import { listBoxes } from '../box/boxes.ts';
import { baseOf, type BoxRecord } from '../box/record.ts';
import { sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const { flags, json } = call;
  const [word = ''] = call.positionals;
  const merged = await withBoxGit(call, word, async (scene) => await merge(call, scene));
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

async function merge({ flags }: Call, scene: GitScene) {
  const { heldChanges, identityOf, mergeBranch } = await import('@squash/box/git/merge');
  const { turnOver } = await import('@squash/box/git/turn');
  const { box, daemon, inBox, repository, quarantine } = scene;
  const writer = (await listBoxes(daemon)).find((each) => writes(each, repository.path));
  if (writer !== undefined)
    throw new GitProblem(
      'merge_refused',
      `box ${writer.id} writes the files of "${repository.path}" itself, and git is not run there; to have the commits: squash box fetch ${box.id}`,
    );
  const message = flags.text('message');
  const name = await inBox.current();
  if (name === undefined)
    throw new GitProblem(
      'branch_refused',
      `nothing is checked out in the box that has a branch’s name: squash box exec ${box.id} -- git switch -c NAME`,
    );
  await inBox.commitAll(message ?? `Changes of box ${box.name ?? box.id}`, await baseBehind(scene, name));
  const { fetched } = await fetchBranches(scene, { names: [name] });
  const [branch] = fetched;
  if (branch === undefined) throw new CliFailure('git_failed', `the box’s branch "${name}" did not come`);
  const host = quarantine.host.with({
    gitDirectory: repository.directories.own,
    worktree: repository.path,
  });
  using _turn = await turnOver(repository.directories.own, scene.signal);
  const held = flags.isSet('held') ? [] : await heldChanges(host, branch.tip);
  if (held.length > 0) throw heldFailure(held, branch.as);
  const identity = await identityOf(host, process.env);
  const own = host.with({ env: identity });
  const done = await mergeBranch(own, { ref: `refs/heads/${branch.as}`, message });
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
