/** `squash box events`: what happened to a box, one line each: itself, its processes, limits, network, paths, secrets, approvals. */
import { findBox } from '../box/boxes.ts';
import { type Line, lineKinds, Story } from '../box/story.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { jsonText, printLine, visible } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const [word = ''] = call.positionals;
  const kinds = call.flags.list('kind');
  const odd = kinds.find((kind) => !(lineKinds as readonly string[]).includes(kind));
  if (odd !== undefined) throw usageFailure(`--kind is ${lineKinds.join(', ')}, not "${odd}"`);
  const { daemon, box } = await findBox(call, word);
  const tell = (line: Line): void => {
    if (kinds.length > 0 && !kinds.includes(line.kind)) return;
    printLine(call.json ? jsonText(line) : `${line.time} ${line.kind.padEnd(8)} ${visible(line.what)}`);
  };
  const story = new Story(daemon.client, box);
  for (const line of await story.soFar()) tell(line);
  if (call.flags.isSet('follow')) await story.follow(tell);
  return exitCodes.ok;
}
