/** What an agent has done in its box, told in a line or two, and what becomes of it: asked for where there is somebody. */
import { isatty } from 'node:tty';
import { parseArguments } from '../arguments.ts';
import { sandboxRecordPath } from '../client/client.ts';
import { boxCommands } from '../command-table-box.ts';
import { boxGitCommands } from '../command-table-box-git.ts';
import type { Call } from '../command.ts';
import { CliFailure } from '../failure.ts';
import { printFailure, printNote } from '../output/print.ts';
import { askOnTerminal } from '../terminal/confirm.ts';
import { findBox } from './boxes.ts';
import { changesOf, changedPlace } from './changes.ts';
import { withBoxGit } from './git-scene.ts';
import { branchOf, type BoxRecord } from './record.ts';

const commitsMax = 1_000;

export async function finishAgent(call: Call, box: BoxRecord): Promise<void> {
  const branch = branchOf(box);
  const told = `squash: ${await summary(call, box)}`;
  const home = branch === undefined ? 'apply' : 'merge';
  const isAsked = !call.json && isatty(0) && isatty(2);
  if (isAsked) {
    const { takeBack } = await import('../terminal/taken-back.ts');
    await takeBack();
  }
  printNote(told);
  if (!isAsked) {
    printNote(`squash: to have it here: squash box ${home} ${box.id} --rm`);
    printNote(
      `squash: to see it: squash box diff ${box.id}${branch === undefined ? '' : ` or box commits ${box.id}`}`,
    );
    printNote(`squash: to throw it away: squash box rm ${box.id}`);
    return;
  }
  const ended: Ended = { box, home };
  while (!(await decided(call, ended)));
}

async function summary(call: Call, box: BoxRecord): Promise<string> {
  const { daemon } = await findBox(call, box.id);
  let files = 0;
  for await (const { path, type } of changesOf(daemon, box.id, changedPlace(box)))
    if (type !== 'directory' && path !== '/.git' && !path.startsWith('/.git/')) files += 1;
  const written = files === 1 ? 'one file is different' : `${files} files are different`;
  const branch = branchOf(box);
  if (branch === undefined) return `in box ${box.id} ${written}`;
  const commits = await withBoxGit(call, box.id, async ({ inBox, tips }) => {
    const own = (await inBox.branches()).find(({ name }) => name === branch);
    return own === undefined ? [] : await inBox.commits(own, { tips, max: commitsMax });
  });
  const made = commits.length === 1 ? 'one commit' : `${commits.length} commits`;
  return `box ${box.id} has ${made} on ${branch}, and ${written}`;
}

interface Ended {
  readonly box: BoxRecord;
  readonly home: 'apply' | 'merge';
  /** What was shown last, which is what is merged. */
  shown?: { readonly tip: string; readonly as: string };
}

/** False: to be asked again. */
async function decided(call: Call, ended: Ended): Promise<boolean> {
  const { box, home } = ended;
  const answer = askOnTerminal(`${home}, diff, keep or discard [${home[0]},d,k,x]? `).toLowerCase();
  if (answer === 'k' || answer === 'keep' || answer === 'q') {
    printNote(`squash: box ${box.id} is kept`);
    return true;
  }
  if (answer === 'x' || answer === 'discard') {
    const { daemon } = await findBox(call, box.id);
    await daemon.client.delete(sandboxRecordPath(box.id));
    if (ended.shown !== undefined)
      printNote(`squash: what was shown is a branch here: git branch -D ${ended.shown.as}`);
    return true;
  }
  if (answer === 'd' || answer === 'diff') await show(call, ended);
  else if (answer === home || answer === home[0])
    return await again(call, [`box ${home}`, box.id, '--rm'], async (typed, run) =>
      home === 'merge' ? await mergeIt(typed, ended.shown?.tip) : await run(typed),
    );
  return false;
}

/** What would come: files, or the commits of its branch. */
async function show(call: Call, ended: Ended): Promise<void> {
  const { box, home } = ended;
  if (home === 'apply')
    await again(call, ['box diff', box.id, '--patch'], async (typed, run) => await run(typed));
  else
    await again(call, ['box merge', box.id], async (typed) => {
      const { showMerge } = await import('../commands/box-merge.ts');
      ended.shown = await showMerge(typed);
      return 0;
    });
}

async function mergeIt(call: Call, shown: string | undefined): Promise<number> {
  const { mergeBox } = await import('../commands/box-merge.ts');
  return await mergeBox(call, shown);
}

type Run = (call: Call) => Promise<number>;

/** As if it had been typed. @returns whether it worked */
async function again(
  call: Call,
  [name, ...words]: readonly [name: string, ...words: string[]],
  how: (typed: Call, run: Run) => Promise<number>,
): Promise<boolean> {
  const spec = [...boxCommands, ...boxGitCommands].find((each) => each.name === name);
  if (spec === undefined) throw new TypeError(`there is no command "${name}"`);
  const { run } = await spec.load();
  try {
    return (await how({ ...call, ...parseArguments(spec, words) }, run)) === 0;
  } catch (failure) {
    if (!(failure instanceof CliFailure)) throw failure;
    printFailure(failure, call.json);
    return false;
  }
}
