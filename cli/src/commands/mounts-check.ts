/** `squash mounts check` and `explain`: whether a sandbox would get a directory of the host. Both exit with 1 where it would not. */
import type { MountCheckAnswer, MountStep } from '@squash/contract/mount-check';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { parseDirectory } from '../mount-words.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { styled } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  return await tell(call, ({ steps }) => steps.slice(-1).map(verdictLine));
}

/** @param lines what people read of it */
export async function tell(
  { client, positionals: [word = ''], flags, json }: Call,
  lines: (answer: MountCheckAnswer) => readonly string[],
): Promise<number> {
  const answer = await client.post<MountCheckAnswer>(apiPath(['v1', 'mounts', 'check']), {
    ...parseDirectory(word),
    ...(flags.isSet('tier') && { tier: flags.text('tier') }),
    ...(flags.isSet('owner') && { owner: flags.text('owner') }),
  });
  if (json) printJson(answer);
  else for (const line of lines(answer)) printLine(line);
  return answer.allowed ? exitCodes.ok : exitCodes.failed;
}

function verdictLine({ allowed, sentence, reason }: MountStep): string {
  return allowed
    ? styled('green', 'allowed')
    : `${styled('red', 'refused')}: ${visible(sentence)} (${reason})`;
}
