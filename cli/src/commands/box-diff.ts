/** `squash box diff`: what a box has written, a line for each name, or as a patch. */
import type { Change } from '@squash/contract/changes';
import { findBox } from '../box/boxes.ts';
import { changedPlace, changeLine, changesOf, chosen, wordsOf } from '../box/changes.ts';
import { patchOf } from '../box/patch.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, printNote } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const [word = '', ...paths] = call.positionals;
  const { daemon, box } = await findBox(call, word);
  const place = changedPlace(box, call.flags.isSet('place') ? call.flags.text('place') : undefined);
  const isChosen = chosen(place, wordsOf(box, place, call), process.cwd());
  const isPatch = call.flags.isSet('patch') && !call.json;
  const items: Change[] = [];
  let objects = 0;
  for await (const change of changesOf(daemon, box.id, place)) {
    if (!isChosen(change.path)) continue;
    if (call.json) {
      items.push(change);
      continue;
    }
    // What a commit consists of, which nobody reads.
    if (paths.length === 0 && change.path.startsWith('/.git/objects/')) {
      objects += 1;
      continue;
    }
    const patch = isPatch ? await patchOf({ client: daemon.client, id: box.id, place }, change) : undefined;
    printLine(changeLine(change));
    for (const line of patch ?? []) printLine(line);
  }
  if (objects > 0) {
    const name = word === '' ? box.id : word;
    printNote(
      `squash: and ${objects} of git’s objects: squash box commits ${name}, or squash box diff ${name} .git`,
    );
  }
  if (call.json) printJson({ box: box.id, place, changes: items });
  return exitCodes.ok;
}
