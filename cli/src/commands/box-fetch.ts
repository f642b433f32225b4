/** `squash box fetch`: branches of a box become branches here, and nothing else of this repository changes. */
import { fetchBranches, withBoxGit } from '../box/git-scene.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine, printNote } from '../output/print.ts';
import { tellLeftOut } from './box-commits.ts';

export async function run(call: Call): Promise<number> {
  const [word = '', ...names] = call.positionals;
  const { flags } = call;
  const as = flags.text('as');
  if (as !== undefined && names.length > 1) throw usageFailure('--as is for one branch');
  const { fetched, leftOut } = await withBoxGit(
    call,
    word,
    async (scene) =>
      await fetchBranches(scene, {
        names: names.length === 0 ? undefined : names,
        as,
        force: flags.isSet('force'),
      }),
  );
  if (call.json) printJson({ fetched, left_out: leftOut });
  else {
    for (const { branch, as: name, tip } of fetched) printLine(`${branch} is ${name} (${tip.slice(0, 10)})`);
    if (fetched.length === 0) printNote('squash: the box has no commit that is not here');
  }
  tellLeftOut(call, leftOut);
  return exitCodes.ok;
}
