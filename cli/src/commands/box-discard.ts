/** `squash box discard`: what boxes have written is thrown away, and the boxes with it. Asks first. */
import { findBox } from '../box/boxes.ts';
import { changedPlace, changesOf } from '../box/changes.ts';
import { sandboxRecordPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { confirm } from '../terminal/confirm.ts';

export async function run(call: Call): Promise<number> {
  const [word = ''] = call.positionals;
  const { daemon, box } = await findBox(call, word);
  if (!call.flags.isSet('yes')) {
    let count = 0;
    for await (const _change of changesOf(daemon, box.id, changedPlace(box))) count += 1;
    confirm(`Throw away ${count === 1 ? 'one change' : `${count} changes`} of box ${box.id}?`);
  }
  await daemon.client.delete(sandboxRecordPath(box.id));
  if (call.json) printJson({ removed: [box.id] });
  else printLine(box.id);
  return exitCodes.ok;
}
