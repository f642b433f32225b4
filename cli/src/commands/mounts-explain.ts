/** `squash mounts explain`: each rule that is asked about a directory of the host, and what it says. */
import type { Call } from '../command.ts';
import { visible } from '../output/print.ts';
import { styled } from '../output/table.ts';
import { tell } from './mounts-check.ts';

export async function run(call: Call): Promise<number> {
  return await tell(call, ({ steps }) =>
    steps.map(({ rule, allowed, reason, sentence }) => {
      const word = allowed ? styled('green', 'allowed') : styled('red', 'refused');
      const code = reason === null ? '' : ` (${reason})`;
      return `${`${rule}:`.padEnd(13)}${word}  ${visible(sentence)}${code}`;
    }),
  );
}
