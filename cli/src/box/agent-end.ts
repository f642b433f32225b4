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
  while (!(await decided(call, box, home)));
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

/** False: to be asked again. */
async function decided(call: Call, box: BoxRecord, home: 'apply' | 'merge'): Promise<boolean> {
  const answer = askOnTerminal(`${home}, diff, keep or discard [${home[0]},d,k,x]? `).toLowerCase();
  if (answer === 'k' || answer === 'keep' || answer === 'q') {
    printNote(`squash: box ${box.id} is kept`);
    return true;
  }
  if (answer === 'x' || answer === 'discard') {
    const { daemon } = await findBox(call, box.id);
    await daemon.client.delete(sandboxRecordPath(box.id));
    return true;
  }
  if (answer === 'd' || answer === 'diff') await again(call, 'box diff', [box.id, '--patch']);
  else if (answer === home || answer === home[0]) return await again(call, `box ${home}`, [box.id, '--rm']);
  return false;
}

/** As if it had been typed. @returns whether it worked */
async function again(call: Call, name: string, words: readonly string[]): Promise<boolean> {
  const spec = [...boxCommands, ...boxGitCommands].find((each) => each.name === name);
  if (spec === undefined) throw new TypeError(`there is no command "${name}"`);
  const { run } = await spec.load();
  try {
    return (await run({ ...call, ...parseArguments(spec, words) })) === 0;
  } catch (failure) {
    if (!(failure instanceof CliFailure)) throw failure;
    printFailure(failure, call.json);
    return false;
  }
}
