/** `squash box stop`: ends what runs in boxes, and keeps what they wrote. */
import { findBox, stopBox } from '../box/boxes.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const stopped: string[] = [];
  for (const word of call.positionals) {
    const { daemon, box } = await findBox(call, word);
    if (box.state !== 'stopped') await stopBox(daemon, box.id);
    stopped.push(box.id);
    if (!call.json) printLine(box.id);
  }
  if (call.json) printJson({ stopped });
  return exitCodes.ok;
}
